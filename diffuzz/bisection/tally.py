"""What was seen of each variant so far, and the answer it amounts to. Index 0 is the good end."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from diffuzz.bisection.answers import Answer, Evidence, Range, Seen, Transition
from diffuzz.bisection.belief import Floats
from diffuzz.bisection.choose import Mask, skip_risk
from diffuzz.finding import Direction

T = TypeVar("T")
Ask = Generator[int, Seen, T]
"""Part of a search: yields indices to look at, is sent what was seen, returns a ``T``."""


SKIPS_OF_A_TOLD_ONE = 3


class Spent(Exception):
    """The limit of runs is reached."""


@dataclass(frozen=True)
class Bracket:
    """The change lies in ``(good, bad]``; ``tellable`` are those strictly between that were
    neither run nor skipped."""

    good: int
    bad: int
    tellable: tuple[int, ...]


class Tally:
    """Counts per variant, the only state of a search; :meth:`ask` and :meth:`dismiss` change it."""

    def __init__(self, n: int, skipped: Collection[int], judge_all: int, max_runs: int) -> None:
        self.n = n
        self.good = np.zeros(n, dtype=np.int64)
        self.bad = np.zeros(n, dtype=np.int64)
        self.skip = np.zeros(n, dtype=np.int64)
        self.strays = np.zeros(n, dtype=np.int64)
        self.skip[list(skipped)] = 1
        self._known_skips = frozenset(skipped)
        self.whole = n - len(self._known_skips) <= judge_all
        self.skips_in_a_row = 0  # since a variant was first told
        self._runs_left = max_runs

    def ask(self, index: int) -> Ask[Seen]:
        if self._runs_left == 0:
            raise Spent
        self._runs_left -= 1
        seen = yield index
        counts = {Seen.GOOD: self.good, Seen.BAD: self.bad, Seen.SKIP: self.skip}[seen]
        if seen is Seen.SKIP:
            self.skips_in_a_row += 1
        elif not self.told()[index]:
            self.skips_in_a_row = 0
        counts[index] += 1
        return seen

    def dismiss(self, index: int) -> None:
        """Set failures of ``index`` aside that came from outside the variant."""
        self.strays[index] += self.bad[index]
        self.bad[index] = 0

    def told(self) -> Mask:
        return np.asarray((self.good > 0) | (self.bad > 0))

    def closed(self) -> Mask:
        """Not worth another run: skipped, or told once but skipped several times since."""
        return np.asarray(self.skip >= np.where(self.told(), SKIPS_OF_A_TOLD_ONE, 1))

    def skip_risk(self) -> Floats:
        """How likely a variant is to be skipped; 0 for those that were told."""
        told = self.told()
        met = self.skip > 0
        met[list(self._known_skips)] = False  # the caller knew them apart from their neighbours
        return np.where(told, 0.0, skip_risk(met & ~told, told))

    def seen(self, index: int) -> Seen | None:
        """What a variant counts as: one failure makes it bad."""
        if self.bad[index]:
            return Seen.BAD
        if self.good[index]:
            return Seen.GOOD
        return Seen.SKIP if self.skip[index] else None

    def of_failing(self) -> tuple[int, int]:
        """Failures and passes, over all variants that failed at least once."""
        return int(self.bad.sum()), int(self.good[self.bad > 0].sum())

    def bracket(self) -> Bracket:
        """Around the change that made the bad end bad, as far as it is known.

        In a row judged as a whole that is the last change. In a searched one the first failure
        counts: what passed after it is a bad variant that happened to pass.
        """
        passing = np.flatnonzero((self.good > 0) & (self.bad == 0))
        failing = np.flatnonzero(self.bad)
        if self.whole:
            good = int(passing[-1])
            bad = int(failing[failing > good][0])
        else:
            bad = int(failing[0])
            good = int(passing[passing < bad][-1])
        tellable = [i for i in range(good + 1, bad) if self.skip[i] == 0]
        return Bracket(good, bad, tuple(tellable))

    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(
            Evidence(i, int(self.good[i]), int(self.bad[i] + self.strays[i]), int(self.skip[i]))
            for i in range(self.n)
            if self.good[i] or self.bad[i] or (self.skip[i] and i not in self._known_skips)
        )

    def transitions(self) -> tuple[Transition, ...]:
        known = [(i, self.seen(i)) for i in np.flatnonzero(self.told()).tolist()]
        return tuple(
            Transition(a, b, was, now)
            for (a, was), (b, now) in pairwise(known)
            if was is not now and was is not None and now is not None
        )

    def answer(self, confidence: float, why: str, notes: Sequence[str]) -> Answer:
        """A culprit when the two sides of the change are neighbours, else a range."""
        bracket = self.bracket()
        good, bad, evidence = bracket.good, bracket.bad, self.evidence()
        found = Range(
            direction=Direction.REGRESSION,
            confidence=confidence,
            tested=tuple(e.index for e in evidence),
            transitions=self.transitions(),
            evidence=evidence,
            notes=tuple(notes),
            good=good,
            bad=bad,
            untested=tuple(range(good + 1, bad)),
            why=why,
        )
        return found.narrowed()
