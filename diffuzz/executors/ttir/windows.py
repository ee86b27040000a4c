"""The arguments of a launch as memory: their bytes, and the addresses they are seen at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.executors.ttir.shadow import Owners
from diffuzz.executors.ttir.values import RAW

WINDOW_BITS = 40
MIDDLE = 1 << (WINDOW_BITS - 1)


class Storage:
    """The bytes behind one or more arguments. ``poison`` marks bytes nobody has written."""

    def __init__(self, tensor: Tensor, poison: Tensor | None) -> None:
        untyped = tensor.untyped_storage()
        self.nbytes = untyped.nbytes()
        self.virtual = tensor.device.type == "meta"
        self.pointer = 0 if self.virtual else untyped.data_ptr()
        self.poison = poison
        self.owners: Owners | None = None
        self.is_written = False
        self._typed: dict[int, Tensor] = {}
        if not self.virtual:
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device)
            self._typed[1] = whole.set_(untyped, 0, (self.nbytes,), (1,))

    def typed(self, size: int) -> Tensor:
        """All of it as integers of ``size`` bytes."""
        view = self._typed.get(size)
        if view is None:
            whole = self._typed[1][: self.nbytes // size * size]
            view = self._typed[size] = whole.view(RAW[size])
        return view

    def owners_for(self, size: int) -> Owners:
        if self.owners is None:
            self.owners = Owners(self.nbytes, size, self.is_written)
        elif size < self.owners.size:
            self.owners = self.owners.finer(size)
        return self.owners


class Members:
    """Which elements between a view's first and last belong to it."""

    def __init__(self, marks: Tensor, itemsize: int) -> None:
        self.marks = marks
        self.itemsize = itemsize
        self.before = torch.zeros(len(marks) + 1, dtype=torch.int64)
        torch.cumsum(marks, 0, out=self.before[1:])

    def hold(self, offset: Tensor, nbytes: int) -> bool:
        """Whether all of ``nbytes`` bytes from each byte offset on belong to the view."""
        first = offset // self.itemsize
        end = (offset + nbytes - 1) // self.itemsize + 1
        return bool((self.before[end] - self.before[first] == end - first).all())

    def each(self, offset: Tensor) -> Tensor:
        """Whether the element at each byte offset does; offsets outside count as the nearest."""
        return self.marks[(offset // self.itemsize).clamp(0, len(self.marks) - 1)]


@dataclass(frozen=True)
class Window:
    """An argument's addresses. ``origin`` is the address of its storage's byte 0; its view lies
    in the bytes ``low..high`` of the storage; ``members`` marks which of its elements (from
    ``low``, ``itemsize`` bytes each) belong to it, None when all do."""

    argument: str
    storage: Storage
    origin: int
    low: int
    high: int
    itemsize: int
    members: Members | None

    def describe(self, byte: int) -> str:
        if 0 <= byte < self.storage.nbytes:
            return f"byte {byte - self.low}, inside its storage but outside its view"
        return f"byte {byte - self.low} of {self.high - self.low}"


def extent(tensor: Tensor) -> int:
    """Elements from the view's first to its last, both included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def has_gaps(tensor: Tensor) -> bool:
    shown = 1
    for n, s in zip(tensor.shape, tensor.stride(), strict=True):
        shown *= n if s else 1
    return extent(tensor) > shown


def members_of(tensor: Tensor) -> Members | None:
    """The elements a strided view contains, None if all between its first and last."""
    if tensor.device.type == "meta" or not has_gaps(tensor):
        return None
    marks = torch.zeros(extent(tensor), dtype=torch.bool)
    marks.as_strided(tensor.shape, tensor.stride()).fill_(True)
    return Members(marks, tensor.element_size())
