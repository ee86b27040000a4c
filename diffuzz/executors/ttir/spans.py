"""Sets of disjoint rows with an owner each, for telling quickly that two accesses do not meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

SHORTEST = 8
"""Rows shorter than this are not worth sorting."""


@dataclass(frozen=True)
class _Run:
    """Disjoint rows in ascending order."""

    starts: Tensor
    ends: Tensor
    pids: Tensor
    low: int
    high: int


def _joined(a: _Run, b: _Run) -> _Run:
    starts, order = torch.cat([a.starts, b.starts]).sort()
    ends = torch.cat([a.ends, b.ends])[order]
    pids = torch.cat([a.pids, b.pids])[order]
    return _Run(starts, ends, pids, min(a.low, b.low), max(a.high, b.high))


class Spans:
    """Rows ``start .. start + length`` (elements), each belonging to one program."""

    def __init__(self) -> None:
        self.runs: list[_Run] = []

    def meets(self, starts: Tensor, length: int, pids: Tensor) -> bool | None:
        """False if no given row overlaps one in here, True if each does so exactly and belongs to
        the same program, None otherwise. ``starts`` are in ascending order."""
        if not self.runs:
            return False
        low, high = int(starts[0]), int(starts[-1]) + length
        met = False
        for run in self.runs:
            if high <= run.low or low >= run.high:
                continue
            before = torch.searchsorted(run.starts, starts + length)
            passed = torch.searchsorted(run.ends, starts, right=True)
            overlap = before > passed
            if not bool(overlap.any()):
                continue
            at = passed.clamp(max=len(run.starts) - 1)
            same = (
                (before - passed == 1)
                & (run.starts[at] == starts)
                & (run.ends[at] == starts + length)
                & (run.pids[at] == pids)
            )
            if not bool((same | ~overlap).all()) or not bool(overlap.all()):
                return None
            met = True
        return met

    def add(self, starts: Tensor, length: int, pids: Tensor) -> bool:
        """Add rows, in ascending order, known not to meet any in here. False, and nothing added,
        if they overlap among themselves."""
        if len(starts) > 1 and int((starts[1:] - starts[:-1]).min()) < length:
            return False
        run = _Run(starts, starts + length, pids, int(starts[0]), int(starts[-1]) + length)
        self.runs.append(run)
        # Joining runs of like size keeps their number logarithmic in that of the rows.
        while len(self.runs) > 1 and len(self.runs[-1].starts) * 2 > len(self.runs[-2].starts):
            self.runs[-2:] = [_joined(*self.runs[-2:])]
        return True

    def elements(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Every element with its owner, in pieces."""
        for run in self.runs:
            lengths = run.ends - run.starts
            first = run.starts.repeat_interleave(lengths)
            begin = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
            index = first + torch.arange(len(first)) - begin
            yield index, run.pids.repeat_interleave(lengths)
