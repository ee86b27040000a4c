"""Loads and stores: which lanes are active, at which addresses, and where a fault is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.frames import Frame, Value
from diffuzz.executors.ttir.ir import Op, Type
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.sums import Rows, Runs, Sum, runs_of, split_axis
from diffuzz.executors.ttir.values import HOLD, RAW, broadcast, ranked, size_of
from diffuzz.executors.ttir.watch import Notice

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run


def from_raw(raw: Tensor, elem: str) -> Tensor:
    dtype = HOLD[elem]
    return raw != 0 if dtype == torch.bool else raw.view(dtype)


def to_raw(value: Tensor) -> Tensor:
    if value.dtype == torch.bool:
        return value.to(torch.uint8)
    return value.contiguous().view(RAW[value.element_size()])


@step("tt.addptr")
def add_to_pointer(run: Run, op: Op, frame: Frame) -> Sum:
    pointer, offset = as_sum(frame.raw(op.operands[0])), frame.raw(op.operands[1])
    size = size_of(op.types[0].pointee)
    # The offset wraps at its own width before it gets here; addresses are 64-bit.
    if isinstance(offset, Sum):
        wide = offset.widened()
        if wide is not None:
            return pointer.plus(wide.times(size) if size != 1 else wide)
        offset = frame[op.operands[1]]
    return pointer.plus(offset.long() * size if size != 1 else offset.long())


def fill_for(elem: str) -> int:
    """What a lane without memory reads: NaN in floats, 0 in integers."""
    return -1 if HOLD[elem].is_floating_point or elem.startswith("f8") else 0


def rows_of(frame: Frame, starts: Tensor, length: int = 1) -> Rows:
    """Rows starting at each of ``starts``, any shape with the program axis first."""
    shape = starts.shape

    def owner() -> Tensor:
        pids = frame.pids if shape[0] == frame.programs else frame.pids[:1]
        return ranked(pids, len(shape) - 1).expand(shape).reshape(-1)

    return Rows(starts.reshape(-1), length, owner)


def as_sum(value: Value) -> Sum:
    return value if isinstance(value, Sum) else Sum([value])


@step("tt.load")
def load(run: Run, op: Op, frame: Frame) -> Tensor:
    kind = op.result_types[0]
    address = as_sum(frame.raw(op.operands[0]))
    access = _Load(run, op, frame, kind)
    if len(op.operands) > 1:
        mask = frame[op.operands[1]]
        if not bool(mask.all()):
            return from_raw(access.masked(address, mask), kind.elem)
    return from_raw(access.whole(address), kind.elem)


class _Load:
    """One execution of a load."""

    def __init__(self, run: Run, op: Op, frame: Frame, kind: Type) -> None:
        self.memory = run.memory
        self.knobs = run.knobs
        self.op = op
        self.frame = frame
        self.kind = kind
        self.size = size_of(kind.elem)
        self.fill = fill_for(kind.elem)
        self.notice = run.notice(op)

    def rows(self, starts: Tensor, length: int) -> Tensor:
        rows = rows_of(self.frame, starts, length)
        got = self.memory.load(rows, self.size, self.fill, self.notice)
        return got.view(*starts.shape, length)

    def whole(self, address: Sum) -> Tensor:
        """All lanes are active."""
        runs = runs_of(address, self.size)
        if runs is None:
            return self.rows(address.total(), 1).squeeze(-1)
        return _unrun(self.rows(runs.starts, runs.length), runs.axis)

    def other(self) -> Tensor:
        """What inactive lanes read."""
        if len(self.op.operands) > 2:
            return to_raw(self.frame[self.op.operands[2]])
        poisoned = self.knobs.masked_load == "poison" and self.fill
        unread = torch.full([1] * (len(self.kind.shape) + 1), -1 if poisoned else 0)
        return unread.to(RAW[self.size])

    def masked(self, address: Sum, mask: Tensor) -> Tensor:
        other = self.other()
        if not bool(mask.any()):
            return other
        rank = len(self.kind.shape)
        address, mask = address.ranked(rank), ranked(mask, rank)
        runs = runs_of(address, self.size)
        if runs is not None and mask.shape[runs.axis] == 1:
            return self.masked_runs(runs, mask, other)
        if runs is not None and runs.is_single:
            count = _prefix(mask, runs.axis)
            if count:
                got = _unrun(self.rows(runs.starts, count), runs.axis)
                return _padded(got, other, runs.axis, mask.shape[runs.axis])
        starts, wide = broadcast(address.total(), mask)
        return torch.where(wide, self.active(starts, wide, 1).squeeze(-1), other)

    def masked_runs(self, runs: Runs, mask: Tensor, other: Tensor) -> Tensor:
        """The mask says the same for each run as a whole."""
        starts, run_mask = broadcast(runs.starts, mask)
        got = _unrun(self.active(starts, run_mask, runs.length), runs.axis)
        return torch.where(mask, got, other)

    def active(self, starts: Tensor, mask: Tensor, length: int) -> Tensor:
        """Rows at ``starts`` where ``mask``; other rows hold anything."""
        flat = mask.reshape(-1)
        count = int(flat.count_nonzero())
        rows = rows_of(self.frame, starts, length)
        if 2 * count > len(flat):
            # Inactive lanes go where an active one goes.
            first = int(flat.to(torch.uint8).argmax())
            owner = rows.owner
            aimed = torch.where(flat, rows.starts, rows.starts[first])
            rows = Rows(aimed, length, lambda: torch.where(flat, owner(), owner()[first]))
            got = self.memory.load(rows, self.size, self.fill, self.notice)
        else:
            lanes = flat.nonzero().squeeze(1)
            part = self.memory.load(rows.kept(lanes), self.size, self.fill, self.notice)
            got = torch.zeros((len(flat), length), dtype=part.dtype)
            got[lanes] = part
        return got.view(*starts.shape, length)


def _unrun(got: Tensor, axis: int) -> Tensor:
    """Runs ``[..., runs, ..., length]`` put one after the other along ``axis``."""
    return got.movedim(-1, axis + 1).flatten(axis, axis + 1)


def _prefix(mask: Tensor, axis: int) -> int:
    """Number of leading active lanes if the mask varies along ``axis`` only and is active up to
    some lane there, else 0."""
    if mask.numel() != mask.shape[axis] or axis == 0:
        return 0
    flat = mask.reshape(-1)
    count = int(flat.count_nonzero())
    return count if bool(flat[:count].all()) else 0


def _padded(got: Tensor, other: Tensor, axis: int, extent: int) -> Tensor:
    """``got`` filled up with ``other`` along ``axis``."""
    shape = list(got.shape)
    shape[axis] = extent
    whole = other.expand(shape).clone(memory_format=torch.contiguous_format)
    whole.narrow(axis, 0, got.shape[axis]).copy_(got)
    return whole


@step("tt.store")
def store(run: Run, op: Op, frame: Frame) -> list[Tensor]:
    kind = op.types[0]
    size, rank = size_of(kind.pointee), len(kind.shape)
    address = as_sum(frame.raw(op.operands[0])).ranked(rank).led(frame.programs)
    value = ranked(to_raw(frame[op.operands[1]]), rank)
    mask = ranked(frame[op.operands[2]], rank) if len(op.operands) > 2 else None
    if mask is not None and bool(mask.all()):
        mask = None
    elif mask is not None and not bool(mask.any()):
        return []
    notice: Notice = run.notice(op)
    shape = (frame.programs, *kind.shape)
    runs = runs_of(address, size)
    if runs is not None:
        stored = _store_runs(runs, shape, value, mask)
        if stored is not None:
            run.memory.store(*_kept(frame, *stored), size, notice)
            return []
    starts = address.total().expand(shape)
    rows, value = _kept(frame, starts, value.expand(shape).unsqueeze(-1), mask)
    run.memory.store(rows, value, size, notice)
    return []


def _store_runs(
    runs: Runs, shape: tuple[int, ...], value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """(starts, values ``[*starts, length]``, mask of starts), None if the mask cuts runs."""
    axis, length = runs.axis, runs.length
    if mask is not None and mask.shape[axis] > 1:
        length = _prefix(mask, axis) if runs.is_single else 0
        if not length:
            return None
        mask = None
    count = runs.starts.shape[axis]
    starts = runs.starts.expand(*shape[:axis], count, *shape[axis + 1 :])
    lanes = value.expand(shape).narrow(axis, 0, count * length)
    lines = split_axis(lanes, axis, length).movedim(axis + 1, -1)
    return starts, lines, mask


def _kept(frame: Frame, starts: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Rows, Tensor]:
    """The active rows and their values ``[rows, length]``."""
    length = value.shape[-1]
    rows = rows_of(frame, starts, length)
    value = value.reshape(-1, length)
    if mask is None:
        return rows, value
    lanes = mask.expand(starts.shape).reshape(-1).nonzero().squeeze(1)
    return rows.kept(lanes), value.index_select(0, lanes)
