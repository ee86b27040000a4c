"""What the sanitizer remembers about memory: who wrote and read each element in this launch, and
which bytes nobody has written yet.

A race is two programs at one address, at least one of them writing, neither atomically, and the
order showing: two writes of different values, or a read of what another program writes. Programs
run in some order here, so an order-dependent access is seen as one of three: a write over another
program's different value, a read of another program's write, a write that changes what another
program has read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MANY = -1
_LOG_LIMIT = 1 << 24


@dataclass(frozen=True)
class Clash:
    """A race: the element (in units of the access size) and the two programs, linear ids."""

    what: str
    element: int
    first: int
    second: int


class _Log:
    """Accesses not yet entered in the map: cheap while nobody else comes near them."""

    def __init__(self) -> None:
        self.entries: list[tuple[Tensor, Tensor]] = []
        self.low, self.high = 1 << 62, -1
        self.lanes = 0

    def add(self, index: Tensor, pids: Tensor, low: int, high: int) -> None:
        self.entries.append((index, pids))
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.lanes += index.numel()


class Owners:
    """Last writer and readers of each element of one storage, elements of ``size`` bytes.

    Maps hold linear program id + 1; 0 is nobody, ``MANY`` (readers only) more than one program.
    """

    def __init__(self, nbytes: int, size: int, track_reads: bool) -> None:
        self.size = size
        self.count = nbytes // size
        self.track_reads = track_reads
        self.writers: Tensor | None = None
        self.readers: Tensor | None = None
        self.written = _Log()
        self.read = _Log()

    def writers_near(self, low: int, high: int) -> Tensor | None:
        """The writers' map if any write touched elements ``low..high``, else None."""
        if low > self.written.high or high < self.written.low:
            return None
        self.enter_writes()
        return self.writers

    def readers_near(self, low: int, high: int) -> Tensor | None:
        if low > self.read.high or high < self.read.low:
            return None
        self.enter_reads()
        return self.readers

    def enter_writes(self) -> None:
        if self.writers is None:
            self.writers = torch.zeros(self.count, dtype=torch.int32)
        for index, pids in self.written.entries:
            self.writers[index] = (pids + 1).to(torch.int32)
        self.written.entries.clear()
        self.written.lanes = 0

    def enter_reads(self) -> None:
        if self.readers is None:
            self.readers = torch.zeros(self.count, dtype=torch.int32)
        readers = self.readers
        for index, pids in self.read.entries:
            mine = (pids + 1).to(torch.int32).expand(index.shape).reshape(-1)
            flat = index.reshape(-1)
            before = readers.index_select(0, flat)
            readers[flat] = mine
            # Lanes of several programs at one element: the last one stays in the map.
            mixed = (readers.index_select(0, flat) != mine) | ((before != 0) & (before != mine))
            readers[flat[mixed]] = MANY
        self.read.entries.clear()
        self.read.lanes = 0

    def note_write(self, index: Tensor, pids: Tensor, low: int, high: int) -> None:
        self.written.add(index, pids, low, high)
        if self.written.lanes > _LOG_LIMIT:
            self.enter_writes()

    def note_read(self, index: Tensor, pids: Tensor, low: int, high: int) -> None:
        self.read.add(index, pids, low, high)
        if self.read.lanes > _LOG_LIMIT:
            self.enter_reads()

    def finer(self, size: int) -> Owners:
        """The same knowledge for smaller elements."""
        ratio = self.size // size
        other = Owners(self.count * self.size, size, self.track_reads)
        for mine, theirs, log in (
            (self.enter_writes, "writers", self.written),
            (self.enter_reads, "readers", self.read),
        ):
            if log.high >= 0:
                mine()
                kept = getattr(self, theirs).repeat_interleave(ratio)
                padded = torch.zeros(other.count, dtype=torch.int32)
                padded[: len(kept)] = kept
                setattr(other, theirs, padded)
                new = other.written if theirs == "writers" else other.read
                new.low, new.high = log.low * ratio, (log.high + 1) * ratio - 1
        return other


def read_clash(owners: Owners, index: Tensor, pids: Tensor, low: int, high: int) -> Clash | None:
    """A race of a read by ``pids`` (broadcastable to ``index``) with earlier writes, if any.
    Notes the read."""
    found = None
    writers = owners.writers_near(low, high)
    if writers is not None:
        before = writers.index_select(0, index.reshape(-1)).view(index.shape)
        bad = (before != 0) & (before != pids + 1)
        if bool(bad.any()):
            at = int(bad.reshape(-1).nonzero()[0])
            found = Clash(
                "read of an element another program writes",
                int(index.reshape(-1)[at]),
                int(before.reshape(-1)[at]) - 1,
                int(pids.expand(index.shape).reshape(-1)[at]),
            )
    if owners.track_reads:
        owners.note_read(index, pids, low, high)
    return found


def write_clash(
    owners: Owners, index: Tensor, changes: Tensor, pids: Tensor, low: int, high: int
) -> Clash | None:
    """A race of a write with earlier accesses, if any. 1-D ``index`` and ``pids``; ``changes``
    marks lanes whose value differs from what the memory holds."""
    for accesses, what in (
        (owners.writers_near(low, high), "different values written by two programs"),
        (owners.readers_near(low, high), "write to an element another program reads"),
    ):
        if accesses is None:
            continue
        before = accesses.index_select(0, index)
        bad = (before != 0) & (before != pids + 1) & changes
        if bool(bad.any()):
            at = int(bad.nonzero()[0])
            other = int(before[at]) - 1 if int(before[at]) != MANY else int(pids[at])
            return Clash(what, int(index[at]), other, int(pids[at]))
    return None
