"""Tensor contents from a counter-based generator: same seed, same bits, on every device.

Each element's bits are a hash of (seed, stream, index) in wrapping 32-bit integer arithmetic held
in int64 tensors, so no library's random state, thread count or device takes part. The mixing
function is the finaliser of MurmurHash3 (public domain, A. Appleby), applied twice.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from diffuzz.numerics.formats import FloatFormat, cast, from_bits

Content = Literal["plain", "wide", "extreme"]
_MASK = 0xFFFFFFFF


def _mix(x: Tensor) -> Tensor:
    x = (x ^ (x >> 16)) * 0x85EBCA6B & _MASK
    x = (x ^ (x >> 13)) * 0xC2B2AE35 & _MASK
    return x ^ (x >> 16)


def random_bits(shape: Sequence[int], seed: int, stream: str) -> Tensor:
    """Uniform 32-bit integers in an int64 tensor of ``shape``.

    ``stream`` names the tensor, so that two tensors of one case have unrelated contents.
    """
    salt = int.from_bytes(hashlib.sha256(f"{seed}/{stream}".encode()).digest()[:8], "big")
    low, high = salt & _MASK, salt >> 32
    index = torch.arange(math.prod(shape), dtype=torch.int64)
    return _mix(_mix((index & _MASK) ^ low) ^ high ^ (index >> 32)).reshape(tuple(shape))


def random_below(shape: Sequence[int], bound: int, seed: int, stream: str) -> Tensor:
    """Integers in ``[0, bound)``, int64. ``bound`` is far below 2**32: its bias is negligible."""
    return random_bits(shape, seed, stream) * bound >> 32


def permutation(n: int, seed: int, stream: str) -> Tensor:
    """A permutation of ``range(n)``, int64 (ties between equal hashes keep index order)."""
    return torch.argsort(random_bits((n,), seed, stream), stable=True)


def random_codes(
    shape: Sequence[int], fmt: FloatFormat, content: Content, seed: int, stream: str
) -> Tensor:
    """Bit patterns of ``fmt`` as int64.

    ``plain``: magnitudes within a few binades of 1. ``wide``: every finite pattern equally
    likely. ``extreme``: as wide, and one element in four is a signed zero, the smallest or
    largest subnormal, the smallest normal, one, the largest finite value, or one below it.
    """
    bits = random_bits(shape, seed, stream)
    sign = (bits >> 31) << (fmt.bits - 1)
    if content == "plain":
        # Three binades below 1 and three above, uniform mantissas.
        span = 6 << fmt.mantissa_bits
        low = (fmt.bias - 3) << fmt.mantissa_bits
        code = low + ((bits & 0x7FFFFFFF) * span >> 31)
    else:
        code = (bits & 0x7FFFFFFF) * (fmt.max_magnitude_code + 1) >> 31
    if content == "extreme":
        top = fmt.max_magnitude_code
        least_normal = 1 << fmt.mantissa_bits
        ends = torch.tensor(
            [0, 1, least_normal - 1, least_normal, fmt.bias << fmt.mantissa_bits, top, top - 1]
        )
        pick = random_bits(shape, seed, stream + "/ends")
        code = torch.where(pick & 3 == 0, ends[(pick >> 2) % len(ends)], code)
    if fmt.flavour == "fnuz":  # the negative zero pattern is its NaN
        sign = torch.where(code == 0, torch.zeros_like(sign), sign)
    return code | sign


def random_values(
    shape: Sequence[int], fmt: FloatFormat, content: Content, seed: int, stream: str
) -> Tensor:
    """A tensor of ``fmt.dtype`` with contents by :func:`random_codes`."""
    return from_bits(random_codes(shape, fmt, content, seed, stream), fmt)


def uniform(
    shape: Sequence[int], low: float, high: float, fmt: FloatFormat, seed: int, stream: str
) -> Tensor:
    """Values in ``[low, high]`` rounded to ``fmt``, as a tensor of ``fmt.dtype``."""
    unit = random_bits(shape, seed, stream).to(torch.float64) / 2.0**32
    return cast(low + (high - low) * unit, fmt)
