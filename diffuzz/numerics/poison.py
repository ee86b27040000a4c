"""Patterns that mark memory nobody has written yet, and memory nobody may read.

Floats of 16 and 32 bits get a quiet NaN with a payload of its own, which arithmetic does not
produce and copies keep. One-byte formats have no room for a payload, so they get the byte that
integers get: it may turn up by chance, once in 256 elements of random data, and callers ask for
many elements before they conclude. ``bool`` has no spare pattern and is never called poison.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diffuzz.numerics.formats import bits_of

UNWRITTEN_BYTE = 0xA5
FORBIDDEN_BYTE = 0xD3

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_UNWRITTEN_NAN = {torch.float32: 0x7FE5A5A5, torch.bfloat16: 0x7FE5, torch.float16: 0x7F65}
_FORBIDDEN_NAN = {torch.float32: 0x7FD3D3D3, torch.bfloat16: 0x7FD3, torch.float16: 0x7ED3}


def poison(tensor: Tensor) -> Tensor:
    """Fill an output with the pattern for "not written yet", in place, and return it.

    Any strides; only the elements the view reaches are touched. ``bool`` becomes True.
    """
    return _fill(tensor, _UNWRITTEN_NAN, UNWRITTEN_BYTE)


def forbid(tensor: Tensor) -> Tensor:
    """Fill memory that must not be read with the pattern for it, in place, and return it."""
    return _fill(tensor, _FORBIDDEN_NAN, FORBIDDEN_BYTE)


def is_poison(tensor: Tensor) -> Tensor:
    """Which elements still hold :func:`poison`'s pattern; bool, same shape."""
    return _matches(tensor, _UNWRITTEN_NAN, UNWRITTEN_BYTE)


def is_forbidden(tensor: Tensor) -> Tensor:
    """Which elements hold :func:`forbid`'s pattern; bool, same shape."""
    return _matches(tensor, _FORBIDDEN_NAN, FORBIDDEN_BYTE)


def raw_bits(tensor: Tensor) -> Tensor:
    """The bit patterns of any tensor of 1, 2, 4 or 8 byte elements as int64, same shape."""
    if tensor.is_floating_point() and tensor.element_size() < 8:
        return bits_of(tensor)
    if tensor.dtype == torch.float64:
        return tensor.contiguous().view(torch.int64)
    return tensor.to(torch.int64)


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one dtype, shape and content, bit by bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(as_integers(one), as_integers(other))


def as_integers(tensor: Tensor) -> Tensor:
    """The bit patterns of a tensor of 1, 2, 4 or 8 byte elements as integers of that width, same
    shape; shares memory where it can."""
    return tensor.contiguous().view(_INTEGERS[tensor.element_size()])


def _pattern(dtype: torch.dtype, nans: dict[torch.dtype, int], byte: int) -> int:
    size = torch.empty(0, dtype=dtype).element_size()
    return nans.get(dtype, int.from_bytes(bytes([byte]) * size, "little"))


def _fill(tensor: Tensor, nans: dict[torch.dtype, int], byte: int) -> Tensor:
    if tensor.dtype == torch.bool:
        return tensor.fill_(True)
    size = tensor.element_size()
    code = _pattern(tensor.dtype, nans, byte)
    raw = torch.tensor(list(code.to_bytes(size, "little")), dtype=torch.uint8)
    return tensor.copy_(raw.view(tensor.dtype)[0].to(tensor.device).expand(tensor.shape))


def _matches(tensor: Tensor, nans: dict[torch.dtype, int], byte: int) -> Tensor:
    if tensor.dtype == torch.bool:
        return torch.zeros_like(tensor)
    size = tensor.element_size()
    code = _pattern(tensor.dtype, nans, byte)
    if size > 1 and code >= 1 << (8 * size - 1):
        code -= 1 << (8 * size)
    return as_integers(tensor) == code
