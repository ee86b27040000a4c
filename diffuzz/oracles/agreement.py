"""Compares the precision of two outputs that are both right.

The statistic. For every element that has slack, the error against the float64 truth is measured
in ulps of the output format, taken at the element or at the rms of its row (all dimensions but
the last), whichever is larger, so that cancellation does not drown the rest. From its mean square
the mean square of the correctly rounded truth's error is taken away: what remains is the *excess*,
what the arithmetic before the last rounding costs. One side is less precise if

* its excess rms is above ``ratio * max(the other's excess rms, floor)``, and
* over rows, the mean difference of squared errors is more than :data:`SIGMAS` standard errors
  above zero (rows are taken as independent; errors within one share intermediates).

Why a legal reordering passes: kernels accumulate in fp32 or wider, and reordering that moves an
fp32 error by far less than ``floor`` = 0.1 ulp of a format of at most 10 mantissa bits. For fp32
outputs a reordering is visible: the rms error of a sum of n terms grows as sqrt(n) in sequence and
as sqrt(log2 n) in a tree, against a bound of n (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., ch. 4); n follows from how far the bound is from the error seen, and ``ratio``
is raised to sqrt(n / log2 n).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.finding import Defect, Direction, Kind, Measure
from diffuzz.numerics.error import measure, read_output, right_elements
from diffuzz.numerics.formats import FloatFormat, ulp
from diffuzz.numerics.rounding import round_extended
from diffuzz.oracles.pairing import Difference
from diffuzz.oracles.wording import signature

SIGMAS = 5.0
MIN_ROWS = 16
LESS_PRECISE = "less-precise"

_NARROW_MANTISSA = 10
_RATIO = {True: 1.5, False: 4.0}
_FLOOR = {True: 0.1, False: 1.0}


@dataclass(frozen=True)
class Precision:
    """Excess rms of both sides and how sure it is that the candidate's is larger, in sigmas."""

    baseline: float
    candidate: float
    sigmas: float
    rows: int
    slack: float


def agree(name: str, expected: Expected, baseline: Tensor, candidate: Tensor) -> Difference | None:
    """``baseline`` and ``candidate`` are raw outputs, each right by itself."""
    found = _precision(expected, baseline, candidate)
    if found is None:
        return None
    if _is_less_precise(expected.fmt, found.candidate, found.baseline, found.slack, found.sigmas):
        return _defect(name, expected, found, candidate), Direction.REGRESSION
    if _is_less_precise(expected.fmt, found.baseline, found.candidate, found.slack, -found.sigmas):
        swapped = Precision(found.candidate, found.baseline, -found.sigmas, found.rows, found.slack)
        return _defect(name, expected, swapped, baseline), Direction.FIXED
    return None


def _precision(expected: Expected, baseline: Tensor, candidate: Tensor) -> Precision | None:
    if expected.slack is None or expected.value.numel() == 0:
        return None
    before, after = (read_output(t, expected.fmt) for t in (baseline, candidate))
    if bool(((before == after) | (before.isnan() & after.isnan())).all()):
        return None
    used = (expected.slack > 0) & before.isfinite() & after.isfinite() & expected.value.isfinite()
    used &= expected.value.abs() <= expected.fmt.max_finite
    if expected.exact is not None:
        used &= ~expected.exact
    if expected.care is not None:
        used &= expected.care
    unit = _unit(expected.value, used, expected.fmt)
    least = _squares(round_extended(expected.value, expected.fmt), expected.value, unit, used)
    worse = _squares(after, expected.value, unit, used)
    better = _squares(before, expected.value, unit, used)
    counts = _rows(used.double()).sum(dim=1)
    kept = counts > 0
    if int(kept.sum()) < MIN_ROWS:
        return None
    means = [(_rows(t).sum(dim=1) / counts.clamp(min=1))[kept] for t in (least, better, worse)]
    gap = means[2] - means[1]
    error = float(gap.std()) / math.sqrt(gap.numel())
    slack = _squares(expected.value + expected.slack, expected.value, unit, used)
    return Precision(
        baseline=_excess(means[1], means[0]),
        candidate=_excess(means[2], means[0]),
        sigmas=float(gap.mean()) / error if error > 0 else math.copysign(math.inf, gap.mean()),
        rows=gap.numel(),
        slack=math.sqrt(float(slack.sum() / used.sum())),
    )


def _is_less_precise(
    fmt: FloatFormat, one: float, other: float, slack: float, sigmas: float
) -> bool:
    narrow = fmt.mantissa_bits <= _NARROW_MANTISSA
    ratio = _RATIO[narrow] if narrow else max(_RATIO[narrow], reordering_ratio(slack, other))
    return sigmas > SIGMAS and one > ratio * max(other, _FLOOR[narrow])


def reordering_ratio(slack: float, rms: float) -> float:
    """How much an rms error may grow when a summation in a tree becomes one in sequence.

    ``slack`` is the worst-case bound (n roundings), ``rms`` the error seen, taken to be a tree's:
    then ``slack / rms = n / sqrt(log2(n) / 3)``, solved for n by iteration.
    """
    if rms <= 0 or slack <= rms:
        return 1.0
    terms = quotient = slack / rms
    for _ in range(4):
        terms = max(2.0, quotient * math.sqrt(math.log2(max(terms, 2.0)) / 3))
    return math.sqrt(terms / math.log2(max(terms, 2.0)))


def _unit(truth: Tensor, used: Tensor, fmt: FloatFormat) -> Tensor:
    kept = torch.where(used, truth, 0.0)
    row = _rows(kept)
    size = (row * row).mean(dim=1, keepdim=True).sqrt().expand_as(row).reshape(truth.shape)
    return ulp(torch.maximum(kept.abs(), size), fmt)


def _squares(values: Tensor, truth: Tensor, unit: Tensor, used: Tensor) -> Tensor:
    error = torch.where(used, (values - truth) / unit, 0.0)
    return error * error


def _rows(tensor: Tensor) -> Tensor:
    if tensor.dim() <= 1:
        return tensor.reshape(-1, 1)
    return tensor.reshape(-1, tensor.shape[-1])


def _excess(mean_squares: Tensor, least: Tensor) -> float:
    return math.sqrt(max(0.0, float((mean_squares - least).mean())))


def _defect(name: str, expected: Expected, found: Precision, output: Tensor) -> Defect:
    message = (
        f"{name}: within the error model, but rms error beyond the last rounding is "
        f"{found.candidate:.2g} ulp of {expected.fmt.name} where the other revision has "
        f"{found.baseline:.2g} ({found.rows:,} rows, {min(found.sigmas, 999):.0f} sigma)"
    )
    return Defect(
        Kind.PRECISION,
        name,
        signature(Kind.PRECISION, name, LESS_PRECISE),
        message,
        _measured(expected, output),
    )


def _measured(expected: Expected, output: Tensor) -> Measure:
    values = read_output(output, expected.fmt)
    return measure(values, expected, right_elements(values, expected))
