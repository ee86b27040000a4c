"""Hypotheses about factors: the sign, a power of two, one uniform factor fitted to the data."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from diffuzz.numerics.formats import ulp
from diffuzz.oracles.evidence import Evidence
from diffuzz.oracles.parts import Factor

MIN_ELEMENTS = 8
MIN_SIGNIFICANDS = 4
NEAR_ULPS = 4

_DOUBLE = "doubled, as when bytes of an FNUZ fp8 format are read as OCP"
_HALF = "halved, as when bytes of an OCP fp8 format are read as FNUZ"


@cache
def fixed_factors() -> tuple[Factor, ...]:
    """None, and those that need no fit. Reading the other fp8 flavour costs exactly a factor of
    two, save for its special codes: FNUZ's largest magnitude becomes NaN, OCP's negative zero too.
    """
    return (
        Factor(),
        Factor("negated", "with the sign flipped", 200, value=-1.0),
        Factor("factor-2", _DOUBLE, 600, value=2.0, special=_largest_became_nan),
        Factor("factor-2", _HALF, 601, value=0.5, special=_zero_became_nan),
    )


def fitted_factor(evidence: Evidence, at: Tensor) -> Factor | None:
    """The uniform factor that maps the truth to the output on the elements ``at``, if there is
    one: the plainest number in the range that nearly all elements allow.

    A factor of 1 but for a few ulps fits any few elements that are off to the same side, so it
    is claimed only when most elements are wrong, as they are if it holds for all.
    """
    truth, values = evidence.truth[at], evidence.values[at]
    usable = truth.isfinite() & values.isfinite() & (truth != 0)
    usable &= values.abs() >= 2.0**evidence.fmt.min_exponent
    truth, values = truth[usable], values[usable]
    significands = torch.frexp(truth.abs()).mantissa
    if truth.numel() < MIN_ELEMENTS or torch.unique(significands).numel() < MIN_SIGNIFICANDS:
        return None
    reach = ulp(values, evidence.fmt) / 2
    if evidence.expected.slack is not None:
        reach = reach + evidence.slack_at(at)[usable] * (values / truth).abs()
    low, high = (values.abs() - reach) / truth.abs(), (values.abs() + reach) / truth.abs()
    bottom, top = _quantile(low, 0.99), _quantile(high, 0.01)
    if bottom > top:
        bottom = top = (bottom + top) / 2
    if bottom <= 0 or (bottom <= 1 <= top and bool((values / truth > 0).all())):
        return None
    sign = -1.0 if float((values / truth).median()) < 0 else 1.0
    value = sign * plainest(bottom, top)
    near = abs(value - 1) <= NEAR_ULPS * 2.0**-evidence.fmt.mantissa_bits
    if value in (-1.0, 2.0, 0.5) or (near and evidence.n_wrong < evidence.n_right):
        return None
    return Factor("factor", f"times {value:.6g}", 620, value=value, combines=False)


def _quantile(values: Tensor, q: float) -> float:
    """As :func:`torch.quantile`, without sorting all of them."""
    rank = q * (values.numel() - 1)
    below = values.kthvalue(math.floor(rank) + 1).values
    above = values.kthvalue(math.ceil(rank) + 1).values
    return float(torch.lerp(below, above, rank - math.floor(rank)))


def plainest(low: float, high: float) -> float:
    """A power of two in ``[low, high]`` (both positive), else the shortest decimal, else the
    middle."""
    power = 2.0 ** math.ceil(math.log2(low))
    if power <= high:
        return power
    for digits in range(1, 9):
        shortest = float(f"{(low + high) / 2:.{digits}g}")
        if low <= shortest <= high:
            return shortest
    return (low + high) / 2


def _largest_became_nan(truth: Tensor, values: Tensor) -> Tensor:
    size = truth.abs()
    largest = size.nan_to_num(0.0).amax(dim=-1, keepdim=True)
    return truth.isnan() | (values.isnan() & (size == largest))


def _zero_became_nan(truth: Tensor, values: Tensor) -> Tensor:
    return truth.isnan() | (values.isnan() & (truth == 0))
