"""Roundings beside the right one: what a value becomes when it is treated less well.

All functions map float64 to float64 and are monotone on finite values, so an interval stays an
interval. Magnitudes beyond a format's range become infinite here, in every format: what overflow
turns into is a matter of policy, applied by the caller.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from diffuzz.numerics.formats import FloatFormat, Overflow

_EXPONENT_FIELD = 0x7FF0000000000000


def spacing(values: Tensor, fmt: FloatFormat) -> Tensor:
    """What :func:`diffuzz.numerics.formats.ulp` says, by float64's exponent field: the field
    alone, read as a float64, is the power of two below a magnitude (0 for zero, infinity for
    infinity and NaN, which counts as zero there and as infinity here)."""
    power = (values.contiguous().view(torch.int64) & _EXPONENT_FIELD).view(torch.float64)
    top = 2.0 ** (math.frexp(fmt.max_finite)[1] - 1)
    return power.clamp_(2.0**fmt.min_exponent, top).mul_(2.0**-fmt.mantissa_bits)


def round_extended(values: Tensor, fmt: FloatFormat) -> Tensor:
    """Nearest value of ``fmt``, ties to even; beyond the largest finite value, infinity."""
    step = spacing(values, fmt)
    # Infinity and NaN pass through: rounding leaves them alone.
    rounded = (values / step).round_().mul_(step)
    return torch.where(rounded.abs() > fmt.max_finite, torch.copysign(_INF, values), rounded)


def truncate_extended(values: Tensor, fmt: FloatFormat) -> Tensor:
    """Nearest value of ``fmt`` toward zero. Finite values never overflow: they stop at the top."""
    step = spacing(values, fmt)
    cut = (torch.trunc(values / step) * step).clamp(-fmt.max_finite, fmt.max_finite)
    return torch.where(values.isfinite(), cut, values)


def flush_subnormals(values: Tensor, fmt: FloatFormat) -> Tensor:
    """Magnitudes below the smallest normal value of ``fmt`` become zero of the same sign."""
    tiny = values.abs() < 2.0**fmt.min_exponent
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


_INF = torch.tensor(torch.inf, dtype=torch.float64)
