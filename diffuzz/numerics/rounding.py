"""Roundings beside the right one: what a value becomes when it is treated less well.

All functions map float64 to float64 and are monotone on finite values, so an interval stays an
interval. Magnitudes beyond a format's range become infinite here, in every format: what overflow
turns into is a matter of policy, applied by the caller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from diffuzz.numerics.formats import FloatFormat, Overflow

_EXPONENT_FIELD = 0x7FF0000000000000


@dataclass(frozen=True)
class Grid:
    """What rounding needs to know of a format: its smallest normal value, the power of two of its
    largest binade, the spacing at 1, its largest finite value. Either of one format, or of one for
    each row: float64 ``[rows, 1]``."""

    floor: float | Tensor
    top: float | Tensor
    unit: float | Tensor
    largest: float | Tensor


@cache
def grid(fmt: FloatFormat) -> Grid:
    largest = fmt.max_finite
    top = 2.0 ** (math.frexp(largest)[1] - 1)
    return Grid(2.0**fmt.min_exponent, top, 2.0**-fmt.mantissa_bits, largest)


def spacing(values: Tensor, fmt: FloatFormat | Grid) -> Tensor:
    """What :func:`diffuzz.numerics.formats.ulp` says, by float64's exponent field: the field
    alone, read as a float64, is the power of two below a magnitude (0 for zero, infinity for
    infinity and NaN, which counts as zero there and as infinity here)."""
    power = (values.contiguous().view(torch.int64) & _EXPONENT_FIELD).view(torch.float64)
    of = _grid(fmt)
    return _clip(power, of.floor, of.top).mul_(of.unit)


def round_extended(values: Tensor, fmt: FloatFormat | Grid) -> Tensor:
    """Nearest value of ``fmt``, ties to even; beyond the largest finite value, infinity."""
    step = spacing(values, fmt)
    # Infinity and NaN pass through: rounding leaves them alone.
    rounded = (values / step).round_().mul_(step)
    over = rounded.abs() > _grid(fmt).largest
    return torch.where(over, torch.copysign(_INF, values), rounded)


def truncate_extended(values: Tensor, fmt: FloatFormat | Grid) -> Tensor:
    """Nearest value of ``fmt`` toward zero. Finite values never overflow: they stop at the top."""
    step, largest = spacing(values, fmt), _grid(fmt).largest
    cut = _clip((values / step).trunc_().mul_(step), -largest, largest)
    return torch.where(values.isfinite(), cut, values)


def flush_subnormals(values: Tensor, fmt: FloatFormat | Grid) -> Tensor:
    """Magnitudes below the smallest normal value of ``fmt`` become zero of the same sign."""
    tiny = values.abs() < _grid(fmt).floor
    return torch.where(tiny, torch.copysign(torch.zeros_like(values), values), values)


def apply_overflow(values: Tensor, fmt: FloatFormat, overflow: Overflow) -> Tensor:
    """Give extended values (see above) the policy of a format: saturate, NaN, or stay infinite.

    Formats without infinities have NaN in their place.
    """
    if overflow == "saturate":
        return values.clamp(-fmt.max_finite, fmt.max_finite)
    if overflow == "inf" and fmt.flavour == "ieee":
        return values
    return torch.where(values.isinf(), torch.nan, values)


def _grid(fmt: FloatFormat | Grid) -> Grid:
    return fmt if isinstance(fmt, Grid) else grid(fmt)


def _clip(values: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    """``values`` between the two; NaN stays. Works in place."""
    if isinstance(low, Tensor) and isinstance(high, Tensor):
        return torch.minimum(torch.maximum(values, low, out=values), high, out=values)
    assert isinstance(low, float)
    assert isinstance(high, float)
    return values.clamp_(low, high)


_INF = torch.tensor(torch.inf, dtype=torch.float64)
