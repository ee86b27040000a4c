"""What the sanitizer remembers of a launch: who wrote and who read each element.

A race is two programs at one address, at least one of them writing, neither atomically, and the
order showing: two writes of different values, or a read of what another program writes. Programs
run in some order here, so an order-dependent access is seen as one of three: a write over another
program's different value, a read of another program's write, a write that changes what another
program has read.

Rows that nobody else comes near are kept as spans, which cost one entry a row. Once accesses
overlap between programs (or in part), a storage's owners are kept for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.executors.ttir.spans import Spans

MANY = -1

WRITE_WRITE = "different values written by two programs"
WRITE_LANES = "different values written by two lanes of one program"
READ_WRITE = "read of an element another program writes"
WRITE_READ = "write to an element another program reads"


@dataclass(frozen=True)
class Clash:
    """A race: the element and the two programs (linear ids)."""

    what: str
    element: int
    first: int
    second: int


class Owners:
    """Last writer and readers of each element of one storage, elements of ``size`` bytes.

    The maps hold linear program id + 1; 0 is nobody, ``MANY`` (readers only) several programs.
    """

    def __init__(self, nbytes: int, size: int, track_reads: bool) -> None:
        self.size = size
        self.count = nbytes // size
        self.track_reads = track_reads
        self.writers: Tensor | None = None
        self.readers: Tensor | None = None
        self.written = Spans()
        self.read = Spans()

    def is_clear_write(self, starts: Tensor, length: int, pids: Tensor) -> bool:
        """Note a write of rows that meets no other program's access and no row of its own.
        False if that cannot be told from spans alone; then nothing was noted."""
        if self.writers is not None:
            return False
        met = self.written.meets(starts, length, pids)
        if met is None or self.read.meets(starts, length, pids) is None:
            return False
        return bool(met) or self.written.add(starts, length, pids)

    def is_clear_read(self, starts: Tensor, length: int, pids: Tensor) -> bool:
        """The same for a read. Reads meet reads freely."""
        if self.writers is not None:
            return False
        if self.written.meets(starts, length, pids) is None:
            return False
        if not self.track_reads:
            return True
        met = self.read.meets(starts, length, pids)
        if met is None:
            return False
        return bool(met) or self.read.add(starts, length, pids)

    def enter_spans(self) -> None:
        """Go over to one entry for each element."""
        if self.writers is None:
            self.writers = torch.zeros(self.count, dtype=torch.int32)
            for index, pids in self.written.elements():
                self.writers[index] = pids + 1
            for index, pids in self.read.elements():
                self.note_read(index, pids)
            self.written, self.read = Spans(), Spans()

    def note_read(self, index: Tensor, pids: Tensor) -> None:
        if self.readers is None:
            self.readers = torch.zeros(self.count, dtype=torch.int32)
        readers, mine = self.readers, pids + 1
        before = readers.index_select(0, index)
        readers[index] = mine
        # Lanes of several programs at one element: the last one stayed in the map.
        mixed = (readers.index_select(0, index) != mine) | ((before != 0) & (before != mine))
        readers[index[mixed]] = MANY

    def read_clash(self, index: Tensor, pids: Tensor) -> Clash | None:
        """A race of a read with earlier writes, if any. 1-D ``index`` and ``pids``; notes it."""
        self.enter_spans()
        assert self.writers is not None
        before = self.writers.index_select(0, index)
        bad = (before != 0) & (before != pids + 1)
        found = None
        if bool(bad.any()):
            at = int(bad.nonzero()[0])
            found = Clash(READ_WRITE, int(index[at]), int(before[at]) - 1, int(pids[at]))
        if self.track_reads:
            self.note_read(index, pids)
        return found

    def write_clash(
        self, index: Tensor, pids: Tensor, changes: Callable[[Tensor], Tensor]
    ) -> Clash | None:
        """A race of a write with earlier accesses, if any; notes the write. ``changes`` tells
        for lanes (positions) whether their value differs from what the memory holds."""
        self.enter_spans()
        assert self.writers is not None
        found = None
        for accesses, what in ((self.writers, WRITE_WRITE), (self.readers, WRITE_READ)):
            if accesses is None or found is not None:
                continue
            before = accesses.index_select(0, index)
            shared = ((before != 0) & (before != pids + 1)).nonzero().squeeze(1)
            if len(shared):
                shared = shared[changes(shared)]
            if len(shared):
                at = int(shared[0])
                other = int(before[at]) - 1 if int(before[at]) != MANY else int(pids[at])
                found = Clash(what, int(index[at]), other, int(pids[at]))
        self.writers[index] = pids + 1
        return found

    def finer(self, size: int) -> Owners:
        """The same knowledge for smaller elements."""
        self.enter_spans()
        assert self.writers is not None
        ratio = self.size // size
        other = Owners(self.count * self.size, size, self.track_reads)
        other.writers = self.writers.repeat_interleave(ratio)
        if self.readers is not None:
            other.readers = self.readers.repeat_interleave(ratio)
        return other
