"""Case → inputs of the decode step, the same on every machine."""

from __future__ import annotations

import torch

from diffuzz.arch import Arch
from diffuzz.case import Case
from diffuzz.inputs import permutation, random_below, random_values, uniform
from diffuzz.numerics.formats import BF16, FP16, FP32, FloatFormat
from diffuzz.target import Inputs

# Kimi-K3's latent and rotary widths; the fused kernel is compiled for them.
LATENT = 512
ROPE = 64
ENTRY = LATENT + ROPE
# fp8_ds_mla: 512 fp8 values, 4 float32 tile scales, 64 values of 16 bits.
DS_MLA_ENTRY = 656
TILE = 128
MAX_POSITION = 97


def is_per_tensor_fp8(case: Case) -> bool:
    return case["kv_cache_dtype"] in ("fp8", "fp8_e4m3")


def model_format(case: Case) -> FloatFormat:
    return BF16 if case["dtype"] == "bf16" else FP16


def make_inputs(case: Case, arch: Arch) -> Inputs:
    """``ql_nope`` ``[tokens, heads, 512]``, ``q_pe`` ``[tokens, heads, 64]``, ``kv_c`` ``[tokens,
    512]``, ``k_pe`` ``[tokens, 64]`` in the model dtype; ``slots`` int64 ``[tokens]`` (-1: not
    inserted); ``positions`` int64 and ``cos_sin`` float32 ``[97, 64]`` (cosines, then sines) or
    None without RoPE; ``num_blocks`` of the cache, which has more slots than tokens.
    """
    tokens, heads = case["tokens"], case["num_heads"]
    fmt = model_format(case)

    def values(stream: str, *shape: int) -> torch.Tensor:
        return random_values(shape, fmt, case["content"], case.seed, stream)

    inputs: Inputs = {
        "ql_nope": values("ql_nope", tokens, heads, LATENT),
        "q_pe": values("q_pe", tokens, heads, ROPE),
        "kv_c": values("kv_c", tokens, LATENT),
        "k_pe": values("k_pe", tokens, ROPE),
        "positions": None,
        "cos_sin": None,
    }
    inputs["num_blocks"] = -(-tokens // case["block_size"]) + 2
    inputs["slots"] = _slots(case, inputs["num_blocks"] * case["block_size"])
    if case["rope"]:
        angle = uniform((MAX_POSITION, ROPE // 2), -3.14159, 3.14159, FP32, case.seed, "angle")
        # Rounded from float64, so that the table does not depend on the host's float32 cosine.
        exact = angle.to(torch.float64)
        inputs["cos_sin"] = torch.cat([exact.cos(), exact.sin()], dim=1).to(torch.float32)
        inputs["positions"] = random_below((tokens,), MAX_POSITION, case.seed, "positions")
    return inputs


def _slots(case: Case, capacity: int) -> torch.Tensor:
    tokens = case["tokens"]
    order = torch.arange(capacity)
    if case["slots"] != "ordered":
        order = permutation(capacity, case.seed, "slots")
    slots = order[:tokens].clone()
    if case["slots"] == "all skipped":
        slots[:] = -1
    elif case["slots"] == "some skipped":
        slots[random_below((tokens,), 3, case.seed, "skipped") == 0] = -1
    return slots.to(torch.int64)
