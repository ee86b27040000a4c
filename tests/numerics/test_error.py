"""The interval test against brute force over every code, and measures by hand."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuzz.expected import Expected
from diffuzz.numerics.error import (
    distance,
    interval,
    measure,
    read_output,
    right_elements,
    unravel,
    within,
)
from diffuzz.numerics.formats import (
    BF16,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    FORMATS,
    FP16,
    FloatFormat,
    Overflow,
    cast,
    decode,
    encode,
    from_bits,
)

BYTES = [E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ]
POLICIES: list[Overflow | None] = ["inf", "saturate", "nan", None]
reals = st.one_of(
    st.floats(-1e6, 1e6, allow_subnormal=True),
    st.floats(-2e-2, 2e-2),
    st.sampled_from(
        [0.0, -0.0, math.inf, -math.inf, math.nan, 240.0, 448.0, 464.0, 465.0, 57344.0]
    ),
)
slacks = st.one_of(st.just(0.0), st.floats(0, 1e-3), st.floats(0, 1e3))


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def nearest(x: float, fmt: FloatFormat) -> float:
    """Ties-to-even rounding by search among the format's values; infinity beyond the range."""
    if not math.isfinite(x):
        return x
    grid = [float(v) for v in decode(torch.arange(fmt.max_magnitude_code + 1), fmt)]
    step = Fraction(grid[-1]) - Fraction(grid[-2])
    grid.append(float(Fraction(grid[-1]) + step))  # the first value beyond the range
    size = Fraction(abs(x))
    if size > grid[-1]:
        return math.copysign(math.inf, x)
    above = min(bisect.bisect_left(grid, size), len(grid) - 1)
    below = max(above - 1, 0)
    up, down = Fraction(grid[above]) - size, size - Fraction(grid[below])
    index = above if up < down or (up == down and above % 2 == 0) else below
    return math.copysign(math.inf if index == len(grid) - 1 else grid[index], x)


def allowed(y: float, a: float, b: float, fmt: FloatFormat, policy: Overflow | None) -> bool:
    """What Expected's docstring says of a result between rounded ends, written with ifs."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(y)
    beyond = math.isinf(a) or math.isinf(b)
    top = fmt.max_finite
    if policy == "saturate":
        return max(-top, min(top, a)) <= y <= max(-top, min(top, b))
    if policy is None:
        if beyond and (math.isnan(y) or (y == top and b > top) or (y == -top and a < -top)):
            return True
        return a <= y <= b
    if policy == "inf" and fmt.flavour == "ieee":
        return a <= y <= b
    return (beyond and math.isnan(y)) or (math.isfinite(y) and a <= y <= b)


@settings(max_examples=150, deadline=None)
@given(reals, slacks, st.sampled_from(BYTES), st.sampled_from(POLICIES))
def test_within_agrees_with_brute_force_over_all_codes(
    value: float, slack: float, fmt: FloatFormat, policy: Overflow | None
) -> None:
    low, high = interval(tensor(value), tensor(slack))
    results = decode(torch.arange(256), fmt)
    got = within(results, low.expand(256), high.expand(256), fmt, policy)
    ends = nearest(float(low), fmt), nearest(float(high), fmt)
    wanted = [allowed(float(y), *ends, fmt, policy) for y in results]
    assert got.tolist() == wanted


@settings(max_examples=150, deadline=None)
@given(
    st.lists(reals, min_size=1, max_size=6),
    slacks,
    st.sampled_from([*BYTES, BF16, FP16]),
    st.sampled_from(POLICIES),
    st.data(),
)
def test_the_quick_test_never_says_more_than_the_interval(
    values: list[float],
    slack: float,
    fmt: FloatFormat,
    policy: Overflow | None,
    data: st.DataObject,
) -> None:
    truth = tensor(*values)
    width = torch.full_like(truth, slack)
    codes = data.draw(st.lists(st.integers(0, (1 << fmt.bits) - 1), min_size=6, max_size=6))
    near = cast(truth + data.draw(st.floats(-2, 2)) * width, fmt)
    for output in (from_bits(torch.tensor(codes[: len(truth)]), fmt), near):
        results = read_output(output, fmt)
        expected = Expected(truth, fmt, slack=width, overflow=policy)
        low, high = interval(truth, width)
        wanted = within(results, low, high, fmt, policy)
        assert right_elements(results, expected).tolist() == wanted.tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(reals, min_size=1, max_size=8), st.sampled_from(list(FORMATS.values())))
def test_the_rounded_truth_is_right_under_every_policy(
    values: list[float], fmt: FloatFormat
) -> None:
    truth = tensor(*values)
    for policy in ("inf", "saturate", "nan"):
        results = read_output(cast(truth, fmt, policy), fmt)
        for accepted in (policy, None):
            expected = Expected(truth, fmt, overflow=accepted)
            right = right_elements(results, expected)
            # A silent contract is silent about overflow only, not about an infinite truth's sign.
            assert bool(right.all()), (truth, results)


@settings(max_examples=100, deadline=None)
@given(st.floats(-1e4, 1e4), st.floats(1e-6, 10), st.floats(-1, 1), st.sampled_from(BYTES))
def test_every_evaluation_within_the_slack_is_right(
    value: float, slack: float, part: float, fmt: FloatFormat
) -> None:
    truth = tensor(value)
    reached = value + part * slack
    results = read_output(cast(tensor(reached), fmt, "saturate"), fmt)
    expected = Expected(truth, fmt, slack=tensor(slack), overflow="saturate")
    assert bool(right_elements(results, expected).all())


@pytest.mark.parametrize(
    ("policy", "results"),
    [
        ("inf", {"inf": True, "nan": False, "top": False}),
        ("saturate", {"inf": False, "nan": False, "top": True}),
        ("nan", {"inf": False, "nan": True, "top": False}),
        (None, {"inf": True, "nan": True, "top": True}),
    ],
)
def test_overflow_policies(policy: Overflow | None, results: dict[str, bool]) -> None:
    shown = {"inf": math.inf, "nan": math.nan, "top": E5M2.max_finite}
    for name, wanted in results.items():
        expected = Expected(tensor(1e9), E5M2, overflow=policy)
        assert bool(right_elements(tensor(shown[name]), expected)) is wanted
        minus = {"inf": -math.inf, "nan": math.nan, "top": -E5M2.max_finite}[name]
        assert bool(right_elements(tensor(minus), expected)) is (wanted and name == "nan")


def test_nan_truth_wants_nan_and_nothing_else() -> None:
    expected = Expected(tensor(math.nan, math.nan, 1.0), BF16, overflow=None)
    assert right_elements(tensor(math.nan, 0.0, math.nan), expected).tolist() == [
        True,
        False,
        False,
    ]


def test_sign_of_zero_counts_only_where_exact() -> None:
    exact = torch.tensor([True, False])
    expected = Expected(tensor(0.0, 0.0), BF16, exact=exact)
    assert right_elements(tensor(-0.0, -0.0), expected).tolist() == [False, True]


def test_fnuz_formats_have_no_negative_zero_to_keep() -> None:
    exact = torch.tensor([True])
    assert bool(right_elements(tensor(0.0), Expected(tensor(-0.0), E4M3FNUZ, exact=exact)).all())
    assert not bool(right_elements(tensor(0.0), Expected(tensor(-0.0), E4M3FN, exact=exact)).all())


@pytest.mark.parametrize("fmt", [*BYTES, BF16, FP16], ids=lambda f: f.name)
def test_neighbours_of_the_rounded_truth_are_wrong_without_slack(fmt: FloatFormat) -> None:
    draw = torch.Generator().manual_seed(0)
    truth = torch.randn(4000, generator=draw, dtype=torch.float64)
    code = encode(truth, fmt)
    for step in (-1, 0, 1):
        results = decode(code + step, fmt)
        low, high = interval(truth, None)
        wanted = within(results, low, high, fmt, "inf")
        assert right_elements(results, Expected(truth, fmt)).tolist() == wanted.tolist()
        assert bool((wanted == (step == 0)).all())


def test_exact_elements_get_no_slack() -> None:
    value = tensor(1.0, 1.0)
    exact = torch.tensor([True, False])
    expected = Expected(value, BF16, slack=tensor(0.5, 0.5), exact=exact)
    assert right_elements(tensor(1.25, 1.25), expected).tolist() == [False, True]


def test_care_masks_elements_out_of_everything() -> None:
    care = torch.tensor([True, False, True])
    expected = Expected(tensor(1.0, 1.0, 1.0), BF16, care=care)
    values = tensor(1.0, math.nan, 1.0078125)
    right = right_elements(values, expected)
    assert right.tolist() == [True, True, False]
    found = measure(values, expected, right)
    assert (found.wrong, found.total, found.first) == (1, 2, (2,))
    assert (found.max_ulp, found.rms_ulp) == (1.0, math.sqrt(0.5))


def test_measure_counts_by_hand() -> None:
    expected = Expected(tensor(1.0, -2.0, math.nan, 8.0).reshape(2, 2), BF16)
    values = tensor(1.0078125, -2.0, 3.0, math.inf).reshape(2, 2)
    right = right_elements(values, expected)
    found = measure(values, expected, right)
    assert (found.wrong, found.total, found.first) == (3, 4, (0, 0))
    assert (found.expected, found.actual) == (1.0, 1.0078125)
    assert found.max_ulp == 1.0
    assert found.rms_ulp == pytest.approx(math.sqrt(1 / 2))  # two finite pairs
    assert found.max_rel == 0.0078125


def test_distance_in_ulps_of_the_format() -> None:
    truth = tensor(1.0, 1000.0, 0.0, math.inf, math.inf, math.nan)
    values = tensor(1.125, 448.0, E4M3FN.smallest, math.inf, 448.0, 1.0)
    found = distance(values, truth, E4M3FN)
    # A saturated result is as near as the format gets.
    assert found[:5].tolist() == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert math.isnan(found[5])


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0, 2), ()])
def test_empty_and_scalar_shapes(shape: tuple[int, ...]) -> None:
    truth = torch.zeros(shape, dtype=torch.float64)
    expected = Expected(truth, BF16, slack=torch.zeros_like(truth))
    right = right_elements(truth, expected)
    found = measure(truth, expected, right)
    assert right.shape == truth.shape
    assert (found.wrong, found.total, found.first) == (0, truth.numel(), None)


def test_strided_tensors_are_judged_like_contiguous_ones() -> None:
    truth = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    output = cast(truth.T.contiguous(), E4M3FN).T
    assert not output.is_contiguous()
    expected = Expected(truth.T.contiguous().T, E4M3FN, slack=truth.abs() * 1e-9)
    assert bool(right_elements(read_output(output, E4M3FN), expected).all())
    broken = output.clone()
    broken[2, 5] = output[3, 5]
    right = right_elements(read_output(broken, E4M3FN), expected)
    assert (~right).nonzero().tolist() == [[2, 5]]


@pytest.mark.parametrize("slack", [-1.0, math.nan])
def test_a_slack_that_is_no_bound_is_refused(slack: float) -> None:
    with pytest.raises(ValueError, match="slack"):
        right_elements(tensor(2.0), Expected(tensor(1.0), BF16, slack=tensor(slack)))


def test_a_truth_that_is_not_finite_needs_no_slack() -> None:
    truth = tensor(math.nan, math.inf, -math.inf)
    low, high = interval(truth, tensor(math.nan, math.nan, -1.0))
    for end in (low, high):
        assert math.isnan(end[0])
        assert end[1:].tolist() == [math.inf, -math.inf]


def test_read_output_takes_bytes_as_codes_and_refuses_other_types() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    for fmt in BYTES:
        by_code, by_type = read_output(codes, fmt), read_output(codes.view(fmt.dtype), fmt)
        assert torch.equal(by_code.nan_to_num(-1), decode(codes, fmt).nan_to_num(-1))
        assert torch.equal(by_code.nan_to_num(-1), by_type.nan_to_num(-1))
    with pytest.raises(ValueError, match="float32 does not hold bf16"):
        read_output(torch.zeros(2), BF16)
    with pytest.raises(ValueError, match="uint8 does not hold bf16"):
        read_output(codes, BF16)


def test_unravel_is_row_major() -> None:
    shape = (3, 4, 5)
    for flat in range(60):
        a, b, c = unravel(flat, shape)
        assert (a * 4 + b) * 5 + c == flat
