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
    members: Tensor | None

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


def members_of(tensor: Tensor) -> Tensor | None:
    """Which elements between the view's first and last it contains."""
    if tensor.device.type == "meta":
        return None
    marks = torch.zeros(extent(tensor), dtype=torch.bool)
    marks.as_strided(tensor.shape, tensor.stride()).fill_(True)
    return marks
