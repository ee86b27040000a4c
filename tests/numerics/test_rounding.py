from __future__ import annotations

import math
from dataclasses import astuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuzz.numerics.formats import BF16, E4M3FN, E5M2, FORMATS, FP16, FloatFormat, round_to, ulp
from diffuzz.numerics.poison import same_bits
from diffuzz.numerics.rounding import (
    Grid,
    apply_overflow,
    flush_subnormals,
    grid,
    round_extended,
    spacing,
    truncate_extended,
)

formats = st.sampled_from(list(FORMATS.values()))
finite = st.floats(allow_nan=False, allow_infinity=False)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@settings(max_examples=300, deadline=None)
@given(st.lists(finite, min_size=1, max_size=8), formats)
def test_spacing_is_the_ulp(values: list[float], fmt: FloatFormat) -> None:
    assert torch.equal(spacing(tensor(*values), fmt), ulp(tensor(*values), fmt))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(), min_size=1, max_size=8), formats)
def test_round_extended_is_round_to_with_overflow_kept_infinite(
    values: list[float], fmt: FloatFormat
) -> None:
    x = tensor(*values)
    extended = round_extended(x, fmt)
    for policy in ("inf", "saturate", "nan"):
        got = apply_overflow(extended, fmt, policy)
        wanted = round_to(x, fmt, policy)
        if policy == "nan" or (policy == "inf" and fmt.flavour != "ieee"):
            wanted = torch.where(x.isinf(), torch.nan, wanted)
        assert torch.equal(got.nan_to_num(nan=-7.5), wanted.nan_to_num(nan=-7.5))


@settings(max_examples=200, deadline=None)
@given(finite, finite, formats)
def test_all_of_them_are_monotone(a: float, b: float, fmt: FloatFormat) -> None:
    low, high = sorted((a, b))
    for rounding in (round_extended, truncate_extended, flush_subnormals):
        assert float(rounding(tensor(low), fmt)) <= float(rounding(tensor(high), fmt))


@settings(max_examples=200, deadline=None)
@given(finite, formats)
def test_truncation_goes_toward_zero_by_less_than_one_step(x: float, fmt: FloatFormat) -> None:
    cut = float(truncate_extended(tensor(x), fmt))
    assert abs(cut) <= abs(x)
    assert math.copysign(1, cut) == math.copysign(1, x)
    if abs(x) < fmt.max_finite:
        assert abs(x) - abs(cut) < float(ulp(tensor(x), fmt))


def test_truncation_drops_bits_of_float32_as_a_mask_does() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    masked = (x.view(torch.int32) & ~0xFFFF).view(torch.float32)
    assert torch.equal(truncate_extended(x.double(), BF16), masked.double())


@pytest.mark.parametrize(
    ("fmt", "policy", "wanted"),
    [
        (E5M2, "inf", math.inf),
        (E5M2, "saturate", 57344.0),
        (E4M3FN, "inf", math.nan),
        (E4M3FN, "saturate", 448.0),
        (FP16, "nan", math.nan),
    ],
)
def test_apply_overflow(fmt: FloatFormat, policy: str, wanted: float) -> None:
    got = float(apply_overflow(tensor(math.inf), fmt, policy))  # type: ignore[arg-type]
    assert got == wanted or (math.isnan(got) and math.isnan(wanted))


def test_flush_keeps_the_sign_and_the_smallest_normal() -> None:
    normal = 2.0**FP16.min_exponent
    got = flush_subnormals(tensor(normal, -normal / 2, normal / 2), FP16)
    assert got.tolist() == [normal, -0.0, 0.0]
    assert math.copysign(1, got[1]) == -1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(), min_size=1, max_size=8))
def test_a_format_for_each_row_is_as_each_by_itself(values: list[float]) -> None:
    rows = tensor(*values).repeat(len(FORMATS), 1)
    columns = torch.tensor([astuple(grid(fmt)) for fmt in FORMATS.values()], dtype=torch.float64)
    grids = Grid(*columns.unsqueeze(2).unbind(1))
    for function in (round_extended, truncate_extended, flush_subnormals):
        together = function(rows, grids)
        for row, fmt in zip(together, FORMATS.values(), strict=True):
            assert same_bits(row.nan_to_num(1.5), function(rows[0], fmt).nan_to_num(1.5))
