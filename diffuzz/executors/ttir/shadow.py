"""What the sanitizer remembers of a launch: who wrote and who read each element.

A race is two programs at one address, at least one of them writing, neither atomically, and the
order showing: two writes of different values, or a read of what another program writes. Programs
run in some order here, so an order-dependent access is seen as one of three: a write over another
program's different value, a read of another program's write, a write that changes what another
program has read.

What is remembered gets finer as accesses come nearer to each other: rows that nobody else touches
are spans, one entry a row; elements nobody else touches are marked in a bitmap and logged; once
programs share an element (or a program comes back to one), every element has its owners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.executors.ttir.spans import SHORTEST, Spans

MANY = -1
_LONGEST_LOG = 1 << 24

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


class _Touched:
    """Elements touched by one program each, and a log of who that was."""

    def __init__(self, count: int) -> None:
        self.marks = torch.zeros(count, dtype=torch.bool)
        self.log: list[tuple[Tensor, Tensor]] = []
        self.lanes = 0

    def any_of(self, index: Tensor) -> bool:
        return bool(self.lanes) and bool(self.marks.index_select(0, index).any())

    def add(self, index: Tensor, pids: Tensor) -> None:
        self.marks[index] = True
        self.log.append((index.to(torch.int32), pids))
        self.lanes += index.numel()


class Owners:
    """Who wrote and read the elements of one storage, elements of ``size`` bytes.

    The maps hold linear program id + 1; 0 is nobody, ``MANY`` (readers only) several programs.
    """

    def __init__(self, nbytes: int, size: int, track_reads: bool) -> None:
        self.size = size
        self.count = nbytes // size
        self.track_reads = track_reads
        self.written_rows, self.read_rows = Spans(), Spans()
        self.written: _Touched | None = None
        self.read: _Touched | None = None
        self.writers: Tensor | None = None
        self.readers: Tensor | None = None

    # -- rows

    def _keeps_rows(self, length: int) -> bool:
        return length >= SHORTEST and self.written is None and self.writers is None

    def is_clear_write(self, starts: Tensor, length: int, pids: Tensor) -> bool:
        """Note a write of rows that meets no other program's access and no row of its own.
        False if that cannot be told from spans alone; then nothing was noted."""
        if not self._keeps_rows(length) or not len(starts):
            return False
        starts, order = starts.sort()
        pids = pids[order]
        met = self.written_rows.meets(starts, length, pids)
        if met is None or self.read_rows.meets(starts, length, pids) is None:
            return False
        return bool(met) or self.written_rows.add(starts, length, pids)

    def is_clear_read(self, starts: Tensor, length: int, pids: Tensor) -> bool:
        """The same for a read. Reads meet reads freely."""
        if not self._keeps_rows(length) or not len(starts):
            return False
        starts, order = starts.sort()
        pids = pids[order]
        if self.written_rows.meets(starts, length, pids) is None:
            return False
        if not self.track_reads:
            return True
        met = self.read_rows.meets(starts, length, pids)
        if met is None:
            return False
        return bool(met) or self.read_rows.add(starts, length, pids)

    # -- elements nobody else touches

    def is_fresh_write(self, index: Tensor, pids: Tensor) -> bool:
        """Note a write of elements nobody has touched; False, and nothing noted, if some are."""
        written, read = self._marked()
        if written is None or read is None or written.any_of(index) or read.any_of(index):
            return False
        written.add(index, pids)
        self._limit_log(written)
        return True

    def is_fresh_read(self, index: Tensor, pids: Tensor) -> bool:
        """Note a read of elements nobody has written (nor, where reads count, read)."""
        written, read = self._marked()
        if written is None or read is None or written.any_of(index):
            return False
        if self.track_reads:
            if read.any_of(index):
                return False
            read.add(index, pids)
            self._limit_log(read)
        return True

    def _limit_log(self, touched: _Touched) -> None:
        if touched.lanes > _LONGEST_LOG:
            self.enter_elements()

    def _marked(self) -> tuple[_Touched | None, _Touched | None]:
        """Bitmaps, made from the spans on first use; None once every element has its owners."""
        if self.writers is None and self.written is None:
            self.written, self.read = _Touched(self.count), _Touched(self.count)
            for touched, rows in ((self.written, self.written_rows), (self.read, self.read_rows)):
                for index, pids in rows.elements():
                    touched.add(index, pids)
            self.written_rows, self.read_rows = Spans(), Spans()
        return self.written, self.read

    # -- elements with owners

    def enter_elements(self) -> None:
        """Go over to an owner for each element."""
        if self.writers is not None:
            return
        written, read = self._marked()
        assert written is not None
        assert read is not None
        self.writers = torch.zeros(self.count, dtype=torch.int32)
        for index, pids in written.log:
            self.writers[index] = pids + 1
        for index, pids in read.log:
            self.note_read(index, pids)
        self.written = self.read = None

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
        self.enter_elements()
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
        self.enter_elements()
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
        self.enter_elements()
        assert self.writers is not None
        ratio = self.size // size
        other = Owners(self.count * self.size, size, self.track_reads)
        other.writers = self.writers.repeat_interleave(ratio)
        if self.readers is not None:
            other.readers = self.readers.repeat_interleave(ratio)
        return other
