"""Integers and addresses as sums of small parts, and accesses as rows of neighbouring elements.

A kernel that reads ``base + row * stride + cols`` makes one address per element, but most of what
is worth knowing (the range they lie in, that columns are neighbours) is known from the parts: a
number per program and a range all programs share. Keeping the parts apart lets a load copy rows
instead of collecting elements, and lets the sanitizer check rows instead of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.executors.ttir.values import pick, ranked

_PARTS = 3
_SHORTEST_ROW = 4


class Sum:
    """``parts`` are integer tensors of one dtype and rank whose sum, broadcast, is the value.
    Like any sum of integers it wraps at the width of the dtype."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Tensor]) -> None:
        self.parts = tuple(parts)

    @property
    def leading(self) -> int:
        return max(p.shape[0] for p in self.parts)

    def total(self) -> Tensor:
        whole = self.parts[0]
        for part in self.parts[1:]:
            whole = whole + part
        return whole

    def plus(self, other: Tensor | Sum) -> Sum:
        """The sum with more parts. A part joins one it does not widen."""
        parts = list(self.parts)
        for part in other.parts if isinstance(other, Sum) else (other,):
            _join(parts, part)
        return Sum(parts)

    def widened(self) -> Sum | None:
        """As int64, or None where the sum may wrap at its own width first."""
        dtype = self.parts[0].dtype
        if dtype == torch.int64:
            return self
        low = high = 0
        for part in self.parts:
            if part.numel() == 0:
                return None
            least, most = torch.aminmax(part)
            low, high = low + int(least), high + int(most)
        limits = torch.iinfo(dtype)
        if low < limits.min or high > limits.max:
            return None
        return Sum([p.long() for p in self.parts])

    def times(self, factor: int) -> Sum:
        return Sum([p * factor for p in self.parts])

    def ranked(self, rank: int) -> Sum:
        return Sum([ranked(p, rank) for p in self.parts])

    def unsqueezed(self, axis: int) -> Sum:
        return Sum([p.unsqueeze(axis) for p in self.parts])

    def picked(self, index: Tensor) -> Sum:
        return Sum([pick(p, index) for p in self.parts])

    def led(self, programs: int) -> Sum:
        if self.leading == programs:
            return self
        first = self.parts[0]
        return Sum([first.expand(programs, *first.shape[1:]), *self.parts[1:]])


def _join(parts: list[Tensor], more: Tensor) -> None:
    parts.sort(key=Tensor.numel)
    for at, part in enumerate(parts):
        if fits(part, more):
            parts[at] = part + more
            return
    if len(parts) == _PARTS:
        parts[:2] = [parts[0] + parts[1]]
    parts.append(more)


def fits(part: Tensor, other: Tensor) -> bool:
    """Whether their sum is no larger than the larger of them."""
    if part.dim() != other.dim():
        return False
    more = less = True
    for a, b in zip(part.shape, other.shape, strict=True):
        more &= b in (1, a)
        less &= a in (1, b)
    return more or less


@dataclass(frozen=True)
class Rows:
    """An access: ``length`` neighbouring elements from each address of ``starts`` (1-D) on.
    ``owner`` gives the linear program id of each row, made on demand."""

    starts: Tensor
    length: int
    owner: Callable[[], Tensor]

    def exploded(self, size: int) -> Rows:
        """The same elements (of ``size`` bytes) as rows of one."""
        if self.length == 1:
            return self
        steps = torch.arange(self.length) * size
        starts = (self.starts.unsqueeze(1) + steps).reshape(-1)
        owner, length = self.owner, self.length
        return Rows(starts, 1, lambda: owner().repeat_interleave(length))

    def kept(self, keep: Tensor) -> Rows:
        """Only the rows that ``keep`` marks or lists."""
        owner = self.owner
        return Rows(self.starts[keep], self.length, lambda: owner()[keep])


@dataclass(frozen=True)
class Runs:
    """All lanes of an access as runs of neighbours along ``axis``: ``starts`` has one address per
    run (their number along that axis), each run has ``length`` elements."""

    axis: int
    starts: Tensor
    length: int

    @property
    def is_single(self) -> bool:
        return self.starts.shape[self.axis] == 1


def runs_of(address: Sum, size: int) -> Runs | None:
    """Find an axis along which all programs access the same runs of neighbouring elements of
    ``size`` bytes; None if there is none."""
    rank = address.parts[0].dim()
    for at, part in enumerate(address.parts):
        long_axes = [d for d in range(rank) if part.shape[d] > 1]
        if len(long_axes) != 1 or long_axes[0] == 0:
            continue
        axis = long_axes[0]
        others = [p for k, p in enumerate(address.parts) if k != at]
        if part.shape[axis] < _SHORTEST_ROW or any(p.shape[axis] > 1 for p in others):
            continue
        length = _run_length(part.reshape(-1), size)
        if length:
            first = split_axis(part, axis, length).select(axis + 1, 0)
            return Runs(axis, Sum([first, *others]).total(), length)
    return None


def split_axis(value: Tensor, axis: int, length: int) -> Tensor:
    """View of ``value`` with ``axis`` as two axes, the second of ``length``."""
    shape = value.shape
    return value.view(*shape[:axis], shape[axis] // length, length, *shape[axis + 1 :])


def _run_length(offsets: Tensor, size: int) -> int:
    """Length of the equal runs of neighbours ``offsets`` consists of, 0 if they are short."""
    near = offsets[1:] - offsets[:-1] == size
    if bool(near.all()):
        return len(offsets)
    length = int(near.to(torch.uint8).argmin()) + 1
    if length < _SHORTEST_ROW or len(offsets) % length:
        return 0
    inside = offsets.view(-1, length)
    return length if bool((inside[:, 1:] - inside[:, :-1] == size).all()) else 0
