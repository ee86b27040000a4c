"""Looking at one finding on one slice, in processes that ran nothing before."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from diffuzz.bisect.question import Question
from diffuzz.bisection import Seen
from diffuzz.outcome import is_machinery
from diffuzz.planning import Piece
from diffuzz.verdicts import Judge

STEADY_RUNS = 3
FLAKY_RUNS = 20
MOST_RUNS = 150
# A failure that shows at its rate stays away this often by chance before it counts as gone.
CHANCE = 0.001
_TRIES = 3  # machinery may recover at once; then it is no news


@dataclass(frozen=True)
class Sight:
    """What looking came to: ``word`` as in :mod:`.status`, ``bad`` of ``runs`` told runs."""

    word: str
    why: str = ""
    bad: int = 0
    runs: int = 0


def look(judge: Judge, piece: Piece, question: Question, rate: float | None = None) -> Sight:
    """Run the case until it can be said whether the finding shows.

    ``rate`` is the share of runs in which a finding known to be flaky fails: it counts as gone
    only after enough runs that its staying away is no chance. One that always failed (``rate``
    None) is gone after :data:`STEADY_RUNS` right runs.
    """
    runner = _Runs(judge, piece, question)
    first = STEADY_RUNS if rate is None else FLAKY_RUNS
    if not runner.until(first):
        return runner.unknown()
    if 0 < runner.bad < runner.told and not runner.until(FLAKY_RUNS):
        return runner.unknown()
    if rate is not None and runner.bad == 0:
        wanted = min(MOST_RUNS, math.ceil(math.log(CHANCE) / math.log1p(-min(rate, 0.99))))
        if not runner.until(wanted):
            return runner.unknown()
        if (1 - rate) ** runner.told > CHANCE:
            return Sight("unknown", f"{runner.told} runs are too few to tell", 0, runner.told)
    return runner.said()


class _Runs:
    """Fresh runs, counted."""

    def __init__(self, judge: Judge, piece: Piece, question: Question) -> None:
        self._once: Callable[[], tuple[Seen, str]] = lambda: _once(judge, piece, question)
        self.bad = 0
        self.told = 0
        self.why = ""

    def until(self, runs: int) -> bool:
        """Whether so many runs could be told."""
        while self.told < runs:
            seen, why = self._once()
            if seen is Seen.SKIP:
                self.why = why
                return False
            self.told += 1
            self.bad += seen is Seen.BAD
        return True

    def unknown(self) -> Sight:
        return Sight("unknown", self.why, self.bad, self.told)

    def said(self) -> Sight:
        if self.bad == 0:
            return Sight("right", "", 0, self.told)
        return Sight("shown" if self.bad == self.told else "flaky", "", self.bad, self.told)


def _once(judge: Judge, piece: Piece, question: Question) -> tuple[Seen, str]:
    for _ in range(_TRIES):
        found = question.look(judge.run(piece, question.case, fresh=True))
        if found.seen is not Seen.SKIP or not is_machinery(found.why):
            break
    return found.seen, found.why
