"""Case → geometry and contents, the same on every machine."""

from __future__ import annotations

import torch

from diffuzz.arch import Arch
from diffuzz.case import Case
from diffuzz.inputs import permutation, random_below, random_codes, random_values
from diffuzz.numerics.formats import BF16, FORMATS, FP16, FloatFormat
from diffuzz.target import Inputs

# Blocks no sequence maps: the null block 0 and a few more, all poisoned.
SPARE_BLOCKS = 4
# Columns of the block table beyond any sequence's blocks.
SPARE_COLUMNS = 2
# Rows of the workspaces beyond the gathered tokens; they must stay untouched.
GUARD_ROWS = 3
# Elements between the end of one block and the start of the next in padded memory, as a hybrid
# model has them whose other layers need larger pages.
PADDING = 48


def model_format(case: Case) -> FloatFormat:
    return BF16 if case["dtype"] == "bf16" else FP16


def cache_format(case: Case, arch: Arch) -> FloatFormat:
    return FORMATS[arch.e4m3] if case["cache"] == "fp8" else model_format(case)


def _starts(case: Case) -> list[int]:
    page = case["page_size"]
    drawn = random_below((len(case["seq_lens"]),), 3 * page, case.seed, "starts").tolist()
    if case["starts"] == "zero":
        return [0] * len(drawn)
    if case["starts"] == "aligned":
        return [s // page * page for s in drawn]
    return drawn


def _block_table(case: Case, ends: list[int]) -> tuple[torch.Tensor, int]:
    """Block table ``[batch, columns]`` (int32) and the number of blocks of the cache.

    ``shared`` gives the later sequences the first sequence's blocks as their prefix. Columns
    beyond a sequence's blocks point to a spare block.
    """
    page = case["page_size"]
    needed = [-(-end // page) for end in ends]
    total = sum(needed)
    num_blocks = total + SPARE_BLOCKS
    order = torch.arange(total) + 1
    if case["pages"] != "ordered":
        order = order[permutation(total, case.seed, "pages")]
    table = torch.full((len(ends), max(needed) + SPARE_COLUMNS), num_blocks - 1, dtype=torch.int32)
    at = 0
    for row, count in enumerate(needed):
        table[row, :count] = order[at : at + count].to(torch.int32)
        at += count
    if case["pages"] == "shared":
        for row in range(1, len(ends)):
            # Only whole blocks that both sequences fill can be shared.
            whole = min(ends[0], ends[row]) // page
            table[row, :whole] = table[0, :whole]
    return table, num_blocks


def make_inputs(case: Case, arch: Arch) -> Inputs:
    """Geometry (int32, as the backend builds it) and logical contents.

    ``k_codes``, ``v_codes``: ``[num_blocks, page_size, num_heads, head_size]`` bit patterns (uint8
    or int16) in the cache's format; slots no sequence reaches hold NaN. ``block_table``: ``[batch,
    columns]``. ``cu_seqlens``: ``[batch + 1]``. ``token_to_batch``: ``[tokens]``. ``starts``:
    ``[batch]``. For round trips ``key``, ``value``: ``[tokens of all positions + padding,
    num_heads, head_size]`` in the model dtype, and ``slots`` (int64).
    """
    lens = list(case["seq_lens"])
    starts = _starts(case)
    ends = [s + n for s, n in zip(starts, lens, strict=True)]
    table, num_blocks = _block_table(case, ends)
    fmt = cache_format(case, arch)
    shape = (num_blocks, case["page_size"], case["num_heads"], case["head_size"])
    reached = _reached_slots(case["page_size"], table, ends, num_blocks)
    inputs: Inputs = {
        "num_blocks": num_blocks,
        "block_table": table,
        "starts": torch.tensor(starts, dtype=torch.int32),
        "cu_seqlens": torch.tensor([0, *lens]).cumsum(0).to(torch.int32),
        "token_to_batch": torch.repeat_interleave(torch.arange(len(lens)), torch.tensor(lens)).to(
            torch.int32
        ),
        "reached": reached,
    }
    if case["op"] == "round_trip":
        inputs.update(_written(case, table, ends))
        return inputs
    for name in ("k", "v"):
        codes = random_codes(shape, fmt, case["content"], case.seed, f"{name}_cache")
        inputs[f"{name}_codes"] = torch.where(
            reached[:, :, None, None], codes, torch.full_like(codes, fmt.nan_code)
        )
    return inputs


def _reached_slots(
    page: int, table: torch.Tensor, ends: list[int], num_blocks: int
) -> torch.Tensor:
    """``[num_blocks, page_size]`` bool: slots that hold a token of some sequence."""
    reached = torch.zeros((num_blocks, page), dtype=torch.bool)
    for row, end in enumerate(ends):
        position = torch.arange(end)
        reached[table[row, position // page].long(), position % page] = True
    return reached


def _written(case: Case, table: torch.Tensor, ends: list[int]) -> Inputs:
    """Keys, values and slots of every reached slot once, then the padding tokens (slot -1)."""
    page = case["page_size"]
    slots: list[int] = []
    for row, end in enumerate(ends):
        position = torch.arange(end)
        slots += (table[row, position // page].long() * page + position % page).tolist()
    distinct = list(dict.fromkeys(slots))
    order = permutation(len(distinct), case.seed, "write order").tolist()
    slot_list = [distinct[i] for i in order] + [-1] * case["pad_tokens"]
    shape = (len(slot_list), case["num_heads"], case["head_size"])
    fmt = model_format(case)
    return {
        "slots": torch.tensor(slot_list, dtype=torch.int64),
        "key": random_values(shape, fmt, case["content"], case.seed, "key"),
        "value": random_values(shape, fmt, case["content"], case.seed, "value"),
    }
