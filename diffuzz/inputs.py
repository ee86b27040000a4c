"""Tensor contents from a counter-based generator: same seed, same bits, on every device.

A 32-bit word is a hash of (seed, stream, counter) in wrapping int32 tensor arithmetic, so no
library's random state, thread count or device takes part. The mixing function is the finaliser of
MurmurHash3 (public domain, A. Appleby) between two additions of a salt. An element takes as many
bits of a word as its format has, so an fp8 tensor costs a quarter of a word an element.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from diffuzz.numerics.formats import FloatFormat, cast

Content = Literal["plain", "wide", "extreme"]
_RAW = {8: torch.uint8, 16: torch.int16, 32: torch.int32}


def _signed(value: int) -> int:
    """The int32 with the low 32 bits of ``value``."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def random_words(count: int, seed: int, stream: str) -> Tensor:
    """``[count]`` int32 words, uniform over all 2**32 patterns.

    ``stream`` names the tensor, so that two tensors of one case have unrelated contents.
    """
    salt = hashlib.sha256(f"{seed}/{stream}".encode()).digest()
    x = torch.arange(count, dtype=torch.int32)
    for part, multiplier in ((salt[:4], 0x85EBCA6B), (salt[4:8], 0xC2B2AE35)):
        x += _signed(int.from_bytes(part, "big"))
        x ^= (x >> 16) & 0xFFFF
        x *= _signed(multiplier)
        x ^= (x >> 13) & 0x7FFFF
        x *= _signed(0x9E3779B1)
    x ^= (x >> 16) & 0xFFFF
    return x


def random_bits(shape: Sequence[int], seed: int, stream: str) -> Tensor:
    """Uniform 32-bit integers in a non-negative int64 tensor of ``shape``."""
    words = random_words(math.prod(shape), seed, stream)
    return (words.to(torch.int64) & 0xFFFFFFFF).reshape(tuple(shape))


def random_below(shape: Sequence[int], bound: int, seed: int, stream: str) -> Tensor:
    """Integers in ``[0, bound)``, int64. ``bound`` is far below 2**32: its bias is negligible."""
    return random_bits(shape, seed, stream) * bound >> 32


def permutation(n: int, seed: int, stream: str) -> Tensor:
    """A permutation of ``range(n)``, int64 (ties between equal hashes keep index order)."""
    return torch.argsort(random_bits((n,), seed, stream), stable=True)


def _lanes(count: int, width: int, seed: int, stream: str) -> Tensor:
    """``[count]`` uniform ``width``-bit patterns in the integer dtype of that width."""
    words = random_words(-(-count * width // 32), seed, stream)
    return words.view(_RAW[width])[:count]


def _ends(fmt: FloatFormat) -> Tensor:
    """Magnitude patterns worth drawing on purpose, eight of them."""
    top, least_normal = fmt.max_magnitude_code, 1 << fmt.mantissa_bits
    one = fmt.bias << fmt.mantissa_bits
    return torch.tensor([0, 1, least_normal - 1, least_normal, one, one, top, top - 1])


def random_codes(
    shape: Sequence[int], fmt: FloatFormat, content: Content, seed: int, stream: str
) -> Tensor:
    """Bit patterns of ``fmt`` in the integer dtype of its width (uint8, int16 or int32).

    ``plain``: magnitudes from an eighth to eight, mantissas uniform. ``wide``: every finite
    pattern about equally likely. ``extreme``: as wide, and about one element in four is a signed
    zero, the smallest or largest subnormal, the smallest normal, one, or one of the two largest
    finite values.
    """
    count = math.prod(shape)
    raw = _lanes(count, fmt.bits, seed, stream)
    sign_bit = 1 << (fmt.bits - 1)
    # Arithmetic in a wider type; 32-bit formats need 64 bits for the product.
    code = raw.to(torch.int64 if fmt.bits == 32 else torch.int32)
    negative = (code & sign_bit) != 0
    code = code & (sign_bit - 1)
    if content == "plain":
        span = 6 << fmt.mantissa_bits
        code = ((fmt.bias - 3) << fmt.mantissa_bits) + (code * span >> (fmt.bits - 1))
    else:
        code = code * (fmt.max_magnitude_code + 1) >> (fmt.bits - 1)
    if content == "extreme":
        pick = _lanes(count, 8, seed, stream + "/ends").to(torch.int32)
        ends = _ends(fmt).to(code.dtype)
        code = torch.where(pick < 64, ends[pick & 7], code)
    if fmt.flavour == "fnuz":  # the negative zero pattern is its NaN
        negative = negative & (code != 0)
    code = torch.where(negative, code - sign_bit if fmt.bits > 8 else code + sign_bit, code)
    return code.to(_RAW[fmt.bits]).reshape(tuple(shape))


def random_values(
    shape: Sequence[int], fmt: FloatFormat, content: Content, seed: int, stream: str
) -> Tensor:
    """A tensor of ``fmt.dtype`` with contents by :func:`random_codes`."""
    return random_codes(shape, fmt, content, seed, stream).view(fmt.dtype)


def uniform(
    shape: Sequence[int], low: float, high: float, fmt: FloatFormat, seed: int, stream: str
) -> Tensor:
    """Values in ``[low, high]`` rounded to ``fmt``, as a tensor of ``fmt.dtype``."""
    unit = random_bits(shape, seed, stream).to(torch.float64) / 2.0**32
    return cast(low + (high - low) * unit, fmt)
