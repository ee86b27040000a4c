"""How values of the IR are held in torch tensors.

The leading axis is the program axis; any axis may have length 1 where the values do not vary
along it. 8-bit floats are held as their bit patterns in ``uint8``: torch has few operations on
its fp8 dtypes, and everything but a cast only moves them. Pointers are ``int64`` addresses.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.ir import Type
from diffuzz.numerics.formats import (
    BF16,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    FP16,
    FP32,
    FloatFormat,
)

HOLD: dict[str, torch.dtype] = {
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "index": torch.int64,
    "ptr": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "f8E4M3FN": torch.uint8,
    "f8E4M3FNUZ": torch.uint8,
    "f8E5M2": torch.uint8,
    "f8E5M2FNUZ": torch.uint8,
}
FORMAT: dict[str, FloatFormat] = {
    "f16": FP16,
    "bf16": BF16,
    "f32": FP32,
    "f8E4M3FN": E4M3FN,
    "f8E4M3FNUZ": E4M3FNUZ,
    "f8E5M2": E5M2,
    "f8E5M2FNUZ": E5M2FNUZ,
}
FP8 = frozenset(name for name in HOLD if name.startswith("f8"))
RAW: dict[int, torch.dtype] = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def held(elem: str) -> torch.dtype:
    """torch dtype that holds elements of this IR type; :class:`Unsupported` if there is none."""
    try:
        return HOLD[elem]
    except KeyError:
        raise Unsupported(f"unsupported type {elem}") from None


def size_of(elem: str) -> int:
    """Bytes an element takes in memory."""
    return held(elem).itemsize


def ranked(value: Tensor, rank: int) -> Tensor:
    """``value`` with unit axes appended up to ``rank`` axes behind the program axis."""
    missing = rank + 1 - value.dim()
    return value.reshape(*value.shape, *[1] * missing) if missing > 0 else value


def spread(value: Tensor, shape: Sequence[int]) -> Tensor:
    """``value`` expanded to ``shape`` behind its program axis (which may stay 1)."""
    if tuple(value.shape[1:]) == tuple(shape):
        return value
    return ranked(value, len(shape)).expand(value.shape[0], *shape)


def led(value: Tensor, programs: int) -> Tensor:
    """``value`` with its program axis expanded to ``programs``."""
    if value.shape[0] == programs:
        return value
    return value.expand(programs, *value.shape[1:])


def pick(value: Tensor, index: Tensor) -> Tensor:
    """Rows ``index`` of the program axis; a uniform value stays as it is."""
    return value if value.shape[0] == 1 else value.index_select(0, index)


def merge(programs: int, parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """One value from ``(positions, value)`` parts that together cover all ``programs``."""
    rank = max(v.dim() for _, v in parts) - 1
    whole = [(at, ranked(v, rank)) for at, v in parts]
    trailing = [max(v.shape[d] for _, v in whole) for d in range(1, rank + 1)]
    merged = torch.empty([programs, *trailing], dtype=whole[0][1].dtype)
    for at, value in whole:
        merged[at] = value.expand(len(at), *trailing)
    return merged


def wrapped(number: int, bits: int) -> int:
    """``number`` modulo ``2**bits``, as a signed integer of that width."""
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def broadcast(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both expanded to their common shape."""
    left, right = torch.broadcast_tensors(a, b)  # type: ignore[no-untyped-call]
    return left, right


def distinct(value: Tensor) -> Tensor:
    """Sorted distinct elements, 1-D."""
    found: Tensor = value.unique()  # type: ignore[no-untyped-call]
    return found


def type_bytes(kind: Type) -> int:
    """Bytes one program needs for a value of this type."""
    total = HOLD.get(kind.elem, torch.int64).itemsize
    for extent in kind.shape:
        total *= extent
    return total
