"""Two right outputs: reordered sums agree, a lost mantissa bit does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.finding import Direction, Kind, Verdict
from diffuzz.numerics.formats import BF16, FP16, FP32, FloatFormat, cast
from diffuzz.numerics.rounding import round_extended
from diffuzz.oracles import assess
from diffuzz.oracles.agreement import agree, reordering_ratio
from diffuzz.outcome import Returned

ROWS, COLUMNS = 48, 32


def terms(seed: int, count: int) -> Tensor:
    """``[rows, columns, count]`` float32 terms of sums."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn((ROWS, COLUMNS, count), generator=draw)


def in_sequence(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[:-1])
    for i in range(x.shape[-1]):
        total = total + x[..., i]
    return total


def backwards(x: Tensor) -> Tensor:
    return in_sequence(x.flip(-1))


def in_a_tree(x: Tensor) -> Tensor:
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def in_blocks(x: Tensor) -> Tensor:
    return in_sequence(in_sequence(x.unflatten(-1, (-1, 16)).transpose(-1, -2)))


def sums(x: Tensor, fmt: FloatFormat) -> Expected:
    count = x.shape[-1]
    slack = count * 2.0**-24 * x.double().abs().sum(-1)
    return Expected(x.double().sum(-1), fmt, slack=slack)


ORDERS: list[Callable[[Tensor], Tensor]] = [in_sequence, backwards, in_a_tree, in_blocks]


@pytest.mark.parametrize("fmt", [BF16, FP16, FP32], ids=lambda f: f.name)
@pytest.mark.parametrize("count", [16, 256, 1024])
@pytest.mark.parametrize("seed", range(3))
def test_every_order_of_a_sum_agrees_with_every_other(
    fmt: FloatFormat, count: int, seed: int
) -> None:
    x = terms(seed, count)
    expected = sums(x, fmt)
    outputs = [order(x).to(fmt.dtype) for order in ORDERS]
    for before in outputs:
        for after in outputs:
            found = assess(Returned({"x": before}), Returned({"x": after}), {"x": expected})
            assert found.baseline.defects == ()
            assert found.differences == []
            assert found.verdict is Verdict.AGREE


def product(seed: int, intermediate: int | None, fmt: FloatFormat) -> tuple[Tensor, Expected]:
    """``a * b * c`` with ``a * b`` kept to some mantissa bits (None: all), and a loose slack: for
    an intermediate of 5 bits, or of 14 where the output is float32."""
    draw = torch.Generator().manual_seed(seed)
    a, b, c = torch.randn((3, ROWS, COLUMNS), generator=draw, dtype=torch.float64)
    kept = a * b
    if intermediate is not None:
        coarse = FloatFormat("coarse", 8, intermediate, 127, "ieee", torch.float32)
        kept = round_extended(kept, coarse)
    value = a * b * c
    slack = value.abs() * (2.0**-15 if fmt is FP32 else 2.0**-6)
    return cast(kept * c, fmt), Expected(value, fmt, slack=slack)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("fmt", "kept", "lost"), [(BF16, 7, 6), (BF16, None, 7), (FP16, 9, 8), (FP32, 20, 16)], ids=str
)
def test_lost_mantissa_bits_within_a_loose_slack(
    fmt: FloatFormat, kept: int | None, lost: int, seed: int
) -> None:
    finer, expected = product(seed, kept, fmt)
    coarser, _ = product(seed, lost, fmt)
    found = assess(Returned({"x": finer}), Returned({"x": coarser}), {"x": expected})
    assert found.baseline.right == found.candidate.right == {"x", "run"}
    ((defect, way),) = found.differences
    assert way is Direction.REGRESSION
    assert defect.kind is Kind.PRECISION
    assert defect.signature == "precision:x:less-precise"
    assert found.verdict is Verdict.DIFFER
    back = assess(Returned({"x": coarser}), Returned({"x": finer}), {"x": expected})
    ((fixed, way),) = back.differences
    assert way is Direction.FIXED
    assert fixed.message == defect.message


def test_the_message_states_both_errors() -> None:
    finer, expected = product(0, 7, BF16)
    coarser, _ = product(0, 6, BF16)
    difference = agree("x", expected, finer, coarser)
    assert difference is not None
    message = difference[0].message
    assert message.startswith("x: within the error model, but rms error beyond the last rounding")
    assert "ulp of bf16 where the other revision has" in message
    assert "48 rows" in message


@pytest.mark.parametrize("seed", range(20))
def test_the_same_distribution_with_other_luck_agrees(seed: int) -> None:
    """Stochastic errors of one size on both sides, as from another block order in bf16."""
    _, expected = product(seed, None, BF16)
    draw = torch.Generator().manual_seed(1000 + seed)
    for size in (0.1, 1.0):
        outputs = []
        for _ in range(2):
            noise = torch.rand(expected.value.shape, generator=draw, dtype=torch.float64) - 0.5
            outputs.append(cast(expected.value * (1 + noise * size * 2.0**-7), BF16))
        assert agree("x", expected, *outputs) is None


def test_one_unlucky_row_is_not_a_loss() -> None:
    """Errors within a row hang together: a shared intermediate that rounds badly is luck."""
    finer, expected = product(0, None, BF16)
    other = finer.clone()
    other[3] = cast(expected.value[3] * (1 + 0.9 * 2.0**-6), BF16)
    assert agree("x", expected, finer, other) is None
    several = finer.clone()
    several[::2] = cast(expected.value[::2] * (1 + 0.9 * 2.0**-6), BF16)
    assert agree("x", expected, finer, several) is not None


def test_few_rows_prove_nothing() -> None:
    finer, expected = product(0, None, BF16)
    coarser, _ = product(0, 6, BF16)
    assert expected.slack is not None
    for rows in (15, 16):
        few = Expected(expected.value[:rows], BF16, slack=expected.slack[:rows])
        found = agree("x", few, finer[:rows], coarser[:rows])
        assert (found is not None) is (rows == 16)


def test_what_is_not_judged_does_not_count() -> None:
    finer, expected = product(0, 7, BF16)
    coarser, _ = product(0, 6, BF16)
    nowhere = torch.zeros(expected.value.shape, dtype=torch.bool)
    assert expected.slack is not None
    for ignored in (
        Expected(expected.value, BF16, slack=expected.slack, care=nowhere),
        Expected(expected.value, BF16, slack=expected.slack, exact=~nowhere),
        Expected(expected.value, BF16),
    ):
        assert agree("x", ignored, finer, coarser) is None


def test_empty_outputs_agree() -> None:
    empty = torch.zeros((0, 4), dtype=torch.float64)
    expected = Expected(empty, BF16, slack=empty)
    assert agree("x", expected, empty.bfloat16(), empty.bfloat16()) is None


def test_reordering_ratio_is_that_of_sequence_and_tree() -> None:
    for count in (16, 256, 4096):
        tree = (torch.tensor(float(count)).log2() / 3).sqrt().item()
        wanted = (count / torch.tensor(float(count)).log2().item()) ** 0.5
        assert reordering_ratio(count, tree) == pytest.approx(wanted, rel=0.05)
    assert reordering_ratio(1.0, 0.0) == 1.0
    assert reordering_ratio(1.0, 2.0) == 1.0
