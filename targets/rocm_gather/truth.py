"""The float64 truth of both operations, and what one mistake would have made of it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from diffuzz.arch import Arch
from diffuzz.case import Case
from diffuzz.expected import Expected, ExpectedBits
from diffuzz.numerics.formats import FloatFormat, decode, round_to, widen
from diffuzz.numerics.poison import poison
from diffuzz.target import Expectation, Inputs

from .cases import GUARD_ROWS, PADDING, cache_format, model_format

# Half an ulp of float32, relative, and half its smallest subnormal: one rounded product.
_FP32_HALF_ULP = 2.0**-24
_FP32_HALF_TINY = 2.0**-150


def expect(case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
    """``key`` and ``value`` ``[tokens, num_heads, head_size]``, and what must stay untouched."""
    expected: dict[str, Expectation] = {}
    for name, cache in (("key", "k"), ("value", "v")):
        if case["op"] == "gather":
            expected[name] = _gathered(case, arch, inputs, cache)
        else:
            expected[name] = _returned(case, arch, inputs, name)
        shape = (GUARD_ROWS, case["num_heads"], case["head_size"])
        expected[f"{name}_guard"] = ExpectedBits(
            poison(torch.empty(shape, dtype=model_format(case).dtype)),
            meaning="workspace rows beyond the gathered tokens",
        )
    if case["op"] == "round_trip":
        expected["spare_blocks"] = _spare_blocks(case, arch, inputs)
    return expected


def _slots(case: Case, inputs: Inputs, shift: int = 0, ignore_starts: bool = False) -> Tensor:
    """``[tokens]`` slot (block * page_size + offset) each gathered token comes from."""
    page = case["page_size"]
    batch = inputs["token_to_batch"].long()
    token = torch.arange(len(batch))
    position = token - inputs["cu_seqlens"].long()[batch]
    if not ignore_starts:
        position = position + inputs["starts"].long()[batch]
    position = (position + shift).clamp(min=0)
    column = (position // page).clamp(max=inputs["block_table"].shape[1] - 1)
    return inputs["block_table"].long()[batch, column] * page + position % page


def _gathered(case: Case, arch: Arch, inputs: Inputs, cache: str) -> Expected:
    fmt, out = cache_format(case, arch), model_format(case)
    codes = inputs[f"{cache}_codes"].flatten(0, 1)
    scale = _as_fp32(case[f"{cache}_scale"])
    other = _as_fp32(case["v_scale" if cache == "k" else "k_scale"])

    def at(slots: Tensor) -> Tensor:
        return decode(codes[slots], fmt)

    stored = at(_slots(case, inputs))
    value = stored * scale
    hypotheses: dict[str, Callable[[], Tensor]] = {
        "the slot one too late": lambda: at(_slots(case, inputs, 1)) * scale,
        "the slot one too early": lambda: at(_slots(case, inputs, -1)) * scale,
        "the page one too late": lambda: at(_slots(case, inputs, case["page_size"])) * scale,
        "the chunk start ignored": lambda: at(_slots(case, inputs, ignore_starts=True)) * scale,
    }
    if case["memory"] == "padded":
        hypotheses["the block stride ignored"] = lambda: (
            decode(_unstrided(case, inputs, cache, fmt), fmt) * scale
        )
    if case["cache"] != "fp8":
        everywhere = torch.ones_like(value, dtype=torch.bool)
        return Expected(value, out, exact=everywhere, hypotheses=hypotheses)
    hypotheses |= {
        f"{cache}_scale missing": lambda: stored,
        f"{cache}_scale applied twice": lambda: stored * scale * scale,
        f"{cache}_scale inverted": lambda: stored / scale,
        f"{cache}_scale swapped with the other scale": lambda: stored * other,
    }
    return Expected(value, out, slack=_product_slack(value), hypotheses=hypotheses)


def _unstrided(case: Case, inputs: Inputs, cache: str, fmt: FloatFormat) -> Tensor:
    """What padded memory gives to a reader that takes its blocks to be contiguous."""
    pages = inputs[f"{cache}_codes"]
    content = pages[0].numel()
    memory = torch.full((pages.shape[0], content + PADDING), fmt.nan_code, dtype=pages.dtype)
    memory[:, :content] = pages.flatten(1)
    return memory.flatten()[: pages.numel()].view(pages.shape).flatten(0, 1)[_slots(case, inputs)]


def _returned(case: Case, arch: Arch, inputs: Inputs, name: str) -> Expected:
    """What a write at unit scale and a gather give back: the input through the cache's format."""
    fmt, out = cache_format(case, arch), model_format(case)
    slots = inputs["slots"]
    row_of = torch.full((inputs["num_blocks"] * case["page_size"],), -1, dtype=torch.int64)
    written = slots >= 0
    row_of[slots[written]] = torch.arange(len(slots))[written]
    source = widen(inputs[name])[row_of[_slots(case, inputs)]]
    if case["cache"] != "fp8":
        return Expected(source, out, exact=torch.ones_like(source, dtype=torch.bool))
    # How a magnitude beyond the fp8 range is stored is the compiler's choice; not judged.
    return Expected(round_to(source, fmt, "saturate"), out, care=source.abs() <= fmt.max_finite)


def _spare_blocks(case: Case, arch: Arch, inputs: Inputs) -> ExpectedBits:
    fmt = cache_format(case, arch)
    spare = int((~inputs["reached"].any(dim=1)).sum())
    # A block holds K and V whatever the declared shape is.
    content = 2 * case["page_size"] * case["num_heads"] * case["head_size"]
    blank = poison(torch.empty((spare, content), dtype=fmt.dtype))
    return ExpectedBits(
        blank.view(torch.uint8 if fmt.bits == 8 else torch.int16),
        meaning="blocks no token maps to",
    )


def _product_slack(value: Tensor) -> Tensor:
    return value.abs().nan_to_num(posinf=0.0) * _FP32_HALF_ULP + _FP32_HALF_TINY


def _as_fp32(scale: float) -> float:
    return float(torch.tensor(scale, dtype=torch.float32))
