"""Roundings beside the right one: what a value becomes when it is treated less well.

All functions map float64 to float64 and are monotone on finite values, so an interval stays an
interval. Magnitudes beyond a format's range become infinite here, in every format: what overflow
turns into is a matter of policy, applied by the caller.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diffuzz.numerics.formats import FloatFormat, Overflow, ulp


def round_extended(values: Tensor, fmt: FloatFormat) -> Tensor:
    """Nearest value of ``fmt``, ties to even; beyond the largest finite value, infinity."""
    spacing = ulp(values, fmt)
    rounded = torch.where(values.isfinite(), torch.round(values / spacing) * spacing, values)
    return torch.where(rounded.abs() > fmt.max_finite, torch.copysign(_INF, values), rounded)


def truncate_extended(values: Tensor, fmt: FloatFormat) -> Tensor:
    """Nearest value of ``fmt`` toward zero. Finite values never overflow: they stop at the top."""
    spacing = ulp(values, fmt)
    cut = (torch.trunc(values / spacing) * spacing).clamp(-fmt.max_finite, fmt.max_finite)
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
