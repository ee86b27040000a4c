"""What is right stays silent, and what no hypothesis reproduces stays unexplained."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.finding import Kind
from diffuzz.numerics.formats import (
    BF16,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    FORMATS,
    FP16,
    FP32,
    FloatFormat,
    cast,
    decode,
)
from diffuzz.numerics.rounding import truncate_extended
from diffuzz.oracles import judge
from diffuzz.outcome import Returned

from .kernels import Paged, Write, gather, write

formats = st.sampled_from(list(FORMATS.values()))
scales = st.sampled_from([1.0, 2.0**-20, 2.0**20, 1e-4, 0.037, 0.37, 3.0, 11.7, 1e3])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    fmt=st.sampled_from([E4M3FN, E4M3FNUZ, E5M2]),
    out=st.sampled_from([BF16, FP16, FP32]),
    scale=scales,
    special=st.booleans(),
)
def test_a_right_gather_is_silent(
    seed: int, lengths: list[int], fmt: FloatFormat, out: FloatFormat, scale: float, special: bool
) -> None:
    case = Paged(seed, tuple(lengths), fmt=fmt, out=out, k_scale=scale, rows=sum(lengths) + 3)
    if special:  # every code: zeros of both signs, subnormals, infinities, NaN
        draw = torch.Generator().manual_seed(seed)
        shape = case.codes.shape
        case.codes = torch.randint(0, 256, shape, generator=draw, dtype=torch.uint8)
    judged = judge(Returned({"key": gather(case)}), {"key": case.expected()})
    assert judged.defects == ()
    assert judged.right == {"key", "run"}


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    tokens=st.integers(0, 50),
    fmt=st.sampled_from([E4M3FN, E4M3FNUZ, E5M2]),
    scale=scales,
    spread=st.sampled_from([1e-8, 1e-2, 1.0, 300.0, 1e6]),
    overflow=st.sampled_from(["saturate", "inf", "nan"]),
)
def test_a_right_write_is_silent(
    seed: int, tokens: int, fmt: FloatFormat, scale: float, spread: float, overflow: str
) -> None:
    case = Write(seed, tokens, fmt=fmt, scale=scale, spread=spread, overflow=overflow)
    judged = judge(Returned(write(case)), case.expected())
    assert judged.defects == ()
    assert judged.right == {"written", "untouched", "input:rows", "run"}


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**31), fmt=formats, policy=st.sampled_from(["inf", "saturate", "nan"]))
def test_random_bit_patterns_as_truth_are_silent(seed: int, fmt: FloatFormat, policy: str) -> None:
    draw = torch.Generator().manual_seed(seed)
    wide = torch.randint(-(2**31), 2**31, (500,), generator=draw)
    truth = decode(wide & 0xFFFFFFFF, FP32)
    output = cast(truth, fmt, policy)  # type: ignore[arg-type]
    expected = Expected(truth, fmt, overflow=policy)  # type: ignore[arg-type]
    assert judge(Returned({"x": output}), {"x": expected}).defects == ()


def judged_what(output: Tensor, expected: Expected) -> tuple[Kind, str]:
    (defect,) = judge(Returned({"x": output}), {"x": expected}).defects
    return defect.kind, defect.signature.split(":", 2)[2]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("fmt", [BF16, FP16, FP32, E4M3FN, E5M2], ids=lambda f: f.name)
def test_random_errors_of_an_ulp_are_precision_without_a_name(fmt: FloatFormat, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    truth = torch.randn((20, 4, 32), generator=draw, dtype=torch.float64)
    codes = cast(truth, fmt).view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[fmt.bits // 8])
    step = torch.randint(-1, 2, truth.shape, generator=draw)
    normal = truth.abs() > 2.0 ** (fmt.min_exponent + 1)
    output = (codes + (step * normal).to(codes.dtype)).view(fmt.dtype)
    assert judged_what(output, Expected(truth, fmt)) == (Kind.PRECISION, "values")


@pytest.mark.parametrize("seed", range(6))
def test_unrelated_values_are_a_wrong_result_without_a_name(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    truth = torch.randn((20, 4, 32), generator=draw, dtype=torch.float64)
    other = torch.randn((20, 4, 32), generator=draw, dtype=torch.float64)
    for fmt in (BF16, E4M3FN):
        assert judged_what(cast(other, fmt), Expected(truth, fmt)) == (Kind.WRONG_RESULT, "values")


@pytest.mark.parametrize("share", [0.5, 0.9, 0.97])
def test_a_hypothesis_that_misses_some_wrong_elements_is_not_named(share: float) -> None:
    case = Paged()
    output = gather(case, "missing scale")
    draw = torch.Generator().manual_seed(0)
    noise = torch.rand(output.shape, generator=draw) > share
    output[noise] = torch.randn(output.shape, generator=draw)[noise].to(output.dtype)
    kind, what = judged_what(output, case.expected())
    assert (kind, what) == (Kind.WRONG_RESULT, "values")


def test_few_wrong_elements_prove_nothing() -> None:
    case = Paged()
    output = gather(case)
    wrong = gather(case, "missing scale")
    output[0, 0, :5] = wrong[0, 0, :5]
    assert judged_what(output, case.expected())[1] == "values"
    output[0, 0, :] = wrong[0, 0, :]
    assert judged_what(output, case.expected())[1] == "k_scale-missing"


def test_one_value_repeated_proves_nothing() -> None:
    truth = torch.full((8, 8), 1.3, dtype=torch.float64)
    output = torch.full((8, 8), 1.5, dtype=torch.bfloat16)
    kind, what = judged_what(output, Expected(truth, BF16))
    assert (kind, what) == (Kind.PRECISION, "values")


def test_hypotheses_that_coincide_with_the_truth_are_never_named() -> None:
    """At unit scale a missing scale changes nothing: another mistake keeps its own name."""
    case = Paged(k_scale=1.0, out=FP32)
    output = gather(case, "slot+1")
    assert judged_what(output, case.expected())[1] == "slot-off-by-one"


def test_ties_are_told_and_not_certain() -> None:
    """At a scale of 2, a missing scale halves, as bytes of the other flavour would."""
    case = Paged(k_scale=2.0, v_scale=2.0**-2)
    judged = judge(Returned({"x": gather(case, "missing scale")}), {"x": case.expected()})
    (defect,) = judged.defects
    assert defect.signature == "wrong-result:x:k_scale-missing"
    judged = judge(Returned({"x": gather(case, "inverted")}), {"x": case.expected()})
    (defect,) = judged.defects
    # 1/2 in place of 2, and v_scale in place of k_scale: a quarter and an eighth.
    assert defect.signature == "wrong-result:x:k_scale-inverted"
    case = Paged(k_scale=2.0, v_scale=0.5)
    judged = judge(Returned({"x": gather(case, "inverted")}), {"x": case.expected()})
    (defect,) = judged.defects
    assert defect.explanation is not None
    assert not defect.explanation.certain
    assert "k_scale inverted (or k and v scale swapped: these data cannot tell)" in defect.message


def test_a_precision_loss_that_flips_a_sign_is_a_wrong_result() -> None:
    draw = torch.Generator().manual_seed(0)
    truth = torch.randn((20, 4, 32), generator=draw, dtype=torch.float64)
    noise = torch.randn((20, 4, 32), generator=draw, dtype=torch.float64) * 0.05
    output = cast(truth + truth * noise, BF16)
    assert judged_what(output, Expected(truth, BF16)) == (Kind.PRECISION, "values")
    output[0, 0, 0] *= -1
    assert judged_what(output, Expected(truth, BF16)) == (Kind.WRONG_RESULT, "values")


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_one_non_finite_element_outranks_noise(special: float) -> None:
    truth = torch.linspace(1, 2, 64, dtype=torch.float64)
    output = cast(truth * 1.01, FP16)
    output[17] = special
    kind, what = judged_what(output, Expected(truth, FP16))
    assert (kind, what) == (Kind.NON_FINITE, "not-finite")


def test_errors_just_outside_a_wide_slack_are_not_a_factor() -> None:
    """They all lie on one side of the truth, by nearly the same amount."""
    draw = torch.Generator().manual_seed(0)
    truth = torch.rand((40, 8, 64), generator=draw, dtype=torch.float64) + 1
    slack = truth * 2.0**-8
    output = cast(truth, BF16)
    few = torch.rand(truth.shape, generator=draw) < 0.01
    low = cast(truth - slack * 2.9, BF16)
    output[few] = low[few]
    assert judged_what(output, Expected(truth, BF16, slack=slack)) == (Kind.PRECISION, "values")


def test_truncation_beyond_a_wide_slack_is_truncation() -> None:
    draw = torch.Generator().manual_seed(0)
    truth = torch.randn((40, 8, 64), generator=draw, dtype=torch.float64)
    output = cast(truncate_extended(truth, BF16), BF16)
    for size in (0.0, 2.0**-12, 2.0**-9):
        expected = Expected(truth, BF16, slack=truth.abs() * size)
        assert judged_what(output, expected) == (Kind.PRECISION, "truncated")
