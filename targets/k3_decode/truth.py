"""The float64 truth of the decode concat and cache insert, with exact error bounds.

Error bounds are counted in roundings of float32 arithmetic (relative 2**-24 each): one for a
reciprocal scale, one for each product, one for the sum of a rotation. They hold whether or not
the compiler contracts a product and a sum into one fused operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.arch import Arch
from diffuzz.case import Case
from diffuzz.expected import Expected, ExpectedBits
from diffuzz.numerics.formats import FORMATS, FP32, FloatFormat, Overflow, round_to, widen
from diffuzz.numerics.poison import poison
from diffuzz.target import Expectation, Inputs

from .cases import DS_MLA_ENTRY, ENTRY, LATENT, TILE, is_per_tensor_fp8, model_format

_ROUNDING = 2.0**-24
_TINY = 2.0**-149
_TILE_FLOOR = 1e-4
# FNUZ e4m3 goes to 240, but vLLM quantises to at most 224 there: both are accepted as saturation.
_FNUZ_CLAMP = 224.0


@dataclass(frozen=True)
class Bounded:
    """Truth and bound of the arithmetic so far; ``copied`` marks what is copied, not computed."""

    value: Tensor
    slack: Tensor
    copied: Tensor


def expect(case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
    fp8 = FORMATS[arch.e4m3]
    query = _concat(case, inputs, inputs["ql_nope"], inputs["q_pe"])
    latent = _concat(case, inputs, inputs["kv_c"], inputs["k_pe"])
    inserted = inputs["slots"] >= 0
    rows = Bounded(latent.value[inserted], latent.slack[inserted], latent.copied[inserted])
    expected: dict[str, Expectation] = {
        "mqa_q": _query(case, fp8, query),
        "cache_rest": _untouched(case, inputs),
    }
    if case["kv_cache_dtype"] == "fp8_ds_mla":
        expected.update(_ds_mla(case, fp8, rows))
    elif is_per_tensor_fp8(case):
        expected["cache"] = _quantised(fp8, rows, case["k_scale"], "k_scale", case["q_scale"])
    else:
        expected["cache"] = _stored(case, rows)
    for name in ("ql_nope", "q_pe", "kv_c", "k_pe"):
        expected[f"input:{name}"] = ExpectedBits(inputs[name], meaning=f"the input {name}")
    return expected


def _concat(case: Case, inputs: Inputs, latent: Tensor, rotary: Tensor) -> Bounded:
    """``[..., 576]``: the latent part copied, the rotary part copied or rotated.

    Rotation is GPT-J style: pairs of neighbours (x, y) become (x cos - y sin, x sin + y cos).
    """
    left, right = widen(latent), widen(rotary)
    slack = torch.zeros_like(right)
    if case["rope"]:
        table = widen(inputs["cos_sin"])[inputs["positions"]]
        table = table.view(-1, *[1] * (right.dim() - 2), right.shape[-1])
        cos, sin = table.chunk(2, dim=-1)
        x, y = right[..., 0::2], right[..., 1::2]
        right = torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)
        terms = torch.stack(
            [(x * cos).abs() + (y * sin).abs(), (x * sin).abs() + (y * cos).abs()], dim=-1
        ).flatten(-2)
        slack = 2 * _ROUNDING * terms + _TINY
    value = torch.cat([left, right], dim=-1)
    copied = torch.ones_like(value, dtype=torch.bool)
    if case["rope"]:
        copied[..., LATENT:] = False
    return Bounded(value, torch.cat([torch.zeros_like(left), slack], dim=-1), copied)


def _stored(case: Case, bounded: Bounded) -> Expected:
    return Expected(bounded.value, model_format(case), slack=bounded.slack, exact=bounded.copied)


def _query(case: Case, fp8: FloatFormat, query: Bounded) -> Expected:
    if not is_per_tensor_fp8(case):
        return _stored(case, query)
    scale = _as_fp32(case["q_scale"])
    if case["supports_quant_query_input"]:
        return _quantised(fp8, query, case["q_scale"], "q_scale", case["k_scale"])
    # A backend that takes no quantised query gets it in the model dtype. Both the query itself
    # and the query through fp8 and back (what a fused kernel leaves to undo) are right.
    low, high = _scaled(fp8, query, scale)
    low = round_to(low, fp8, "saturate") * scale
    high = round_to(high, fp8, "saturate") * scale
    error = high.abs().maximum(low.abs()) * _ROUNDING + _TINY
    low = (low - error).minimum(query.value - query.slack)
    high = (high + error).maximum(query.value + query.slack)
    hypotheses: dict[str, Callable[[], Tensor]] = {
        "q_scale not undone": lambda: query.value / scale,
        "q_scale applied twice": lambda: query.value * scale,
    }
    return _between(low, high, model_format(case), "inf", hypotheses)


def _scaled(fp8: FloatFormat, bounded: Bounded, scale: float) -> tuple[Tensor, Tensor]:
    """Bounds of ``value / scale`` as float32 computes it, cut to the accepted saturation."""
    value = bounded.value / scale
    slack = bounded.slack / scale + value.abs() * 3 * _ROUNDING + _TINY
    low, high = value - slack, value + slack
    inner = _FNUZ_CLAMP if fp8.flavour == "fnuz" else fp8.max_finite
    low = torch.where(low > inner, inner, low).clamp(min=-fp8.max_finite)
    high = torch.where(high < -inner, -inner, high).clamp(max=fp8.max_finite)
    return low, high


def _quantised(
    fp8: FloatFormat, bounded: Bounded, scale: float, name: str, other: float
) -> Expected:
    scale, other = _as_fp32(scale), _as_fp32(other)
    low, high = _scaled(fp8, bounded, scale)
    hypotheses: dict[str, Callable[[], Tensor]] = {
        f"{name} missing": lambda: bounded.value,
        f"{name} inverted": lambda: bounded.value * scale,
        f"{name} applied twice": lambda: bounded.value / scale / scale,
        f"{name} swapped with the other scale": lambda: bounded.value / other,
    }
    return _between(low, high, fp8, "saturate", hypotheses)


def _ds_mla(case: Case, fp8: FloatFormat, rows: Bounded) -> dict[str, Expectation]:
    """An entry: 512 fp8 values in tiles of 128, each over its own scale, then 64 plain values.

    The stored scale is the kernel's choice, since the entry carries it, so the latent is judged
    as it reads back. Right is what a scale of the tile's largest magnitude over the fp8 limit
    costs, up to the next power of two, with magnitudes below ``_TILE_FLOOR`` taken as that: half
    an fp8 ulp, relative (2**-4) for normal and absolute for subnormal codes.
    """
    limit = _FNUZ_CLAMP if fp8.flavour == "fnuz" else fp8.max_finite
    latent = rows.value[:, :LATENT]
    largest = latent.unflatten(1, (LATENT // TILE, TILE)).abs().amax(dim=-1, keepdim=True)
    scale = 2 * largest.clamp(min=_TILE_FLOOR) / limit
    scale = scale.expand(-1, -1, TILE).flatten(1)
    relative = 2.0 ** -(fp8.mantissa_bits + 1)
    slack = latent.abs() * (relative + 4 * _ROUNDING) + scale * fp8.smallest / 2
    rotary = Bounded(rows.value[:, LATENT:], rows.slack[:, LATENT:], rows.copied[:, LATENT:])
    return {
        "cache_latent": Expected(latent, FP32, slack=slack),
        "cache_rope": _stored(case, rotary),
    }


def _untouched(case: Case, inputs: Inputs) -> ExpectedBits:
    slots = inputs["num_blocks"] * case["block_size"]
    count = slots - int((inputs["slots"] >= 0).sum())
    if case["kv_cache_dtype"] == "fp8_ds_mla":
        blank = torch.empty((count, DS_MLA_ENTRY), dtype=torch.uint8)
    elif is_per_tensor_fp8(case):
        blank = torch.empty((count, ENTRY), dtype=torch.uint8)
    else:
        blank = torch.empty((count, ENTRY), dtype=model_format(case).dtype)
    blank = poison(blank)
    raw = blank.view(torch.int16) if blank.element_size() == 2 else blank
    return ExpectedBits(raw, meaning="cache slots no token maps to")


def _between(
    low: Tensor,
    high: Tensor,
    fmt: FloatFormat,
    overflow: Overflow,
    hypotheses: dict[str, Callable[[], Tensor]],
) -> Expected:
    # The middle and half the width are rounded to float64 themselves: where one end is far above
    # the other, the bound must still reach the lower one.
    return Expected(
        (low + high) / 2,
        fmt,
        slack=(high - low) / 2 * (1 + 2.0**-50),
        overflow=overflow,
        hypotheses=hypotheses,
    )


def _as_fp32(scale: float) -> float:
    return float(torch.tensor(scale, dtype=torch.float32))
