"""Searching for the change of an error's size, such as from 1.9 to 14 ulp.

Sizes are compared by their ratio (on a log scale): a row of errors is a staircase, and the answer
is its highest step in the direction from the good end to the bad one. The search always splits
the pair of measured neighbours with the largest step between them, so a staircase of several
steps costs more looks, and a smaller step never hides a larger one (unless the error rises and
falls again between two looks; only a row short enough to be measured as a whole shows that).

Inside this module index 0 is the good end, as in :mod:`.search`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from diffuzz.bisection.answers import (
    Answer,
    BadEnds,
    Evidence,
    NoDifference,
    Range,
    Seen,
    Transition,
)
from diffuzz.bisection.choose import skip_risk
from diffuzz.bisection.drive import Observation, Steps, drive
from diffuzz.bisection.tally import Spent
from diffuzz.finding import Direction

T = TypeVar("T")
Measuring = Generator[int, Observation, T]

CEILING = 2.0**100  # stands for infinite and NaN errors
LEAST_NOISE = 0.01  # in powers of two; equal repeats do not prove that there is no noise at all


@dataclass(frozen=True)
class SizePlan:
    """``step`` is the least ratio that counts as a change and ``floor`` the least size told from
    nothing; ``repeats`` measurements are made of a variant and their median is used; ``judge_all``
    and ``skips_in_a_row`` as in :class:`diffuzz.bisection.Plan`; ``confirm`` the runs in turns."""

    step: float = 1.25
    floor: float = 2.0**-6
    repeats: int = 1
    judge_all: int = 24
    skips_in_a_row: int = 8
    confirm: int = 2
    max_runs: int = 20_000

    def __post_init__(self) -> None:
        if not (self.step > 1 and self.floor > 0 and self.repeats >= 1 and self.max_runs >= 2):
            raise ValueError(f"{self} cannot be carried out")


def search_size(
    n: int,
    probe: Callable[[int], Observation],
    *,
    direction: Direction = Direction.REGRESSION,
    plan: SizePlan | None = None,
    skipped: Collection[int] = (),
    log: Iterable[tuple[int, Observation]] = (),
    record: Callable[[int, Observation], None] | None = None,
) -> Answer:
    """Find the variant that changed the size of an error most.

    ``probe`` returns a size (0 or more, any unit; NaN and infinity count as largest) or
    ``Seen.SKIP``. The answer's ``good_size`` and ``bad_size`` are the sizes on its two sides.
    Other parameters as in :func:`diffuzz.bisection.search`. Raises ValueError for a size below 0.
    """
    return drive(size_steps(n, direction, plan, skipped), n, direction, probe, log, record)


def size_steps(
    n: int,
    direction: Direction = Direction.REGRESSION,
    plan: SizePlan | None = None,
    skipped: Collection[int] = (),
) -> Steps[Observation]:
    """The search as a generator, for :func:`diffuzz.bisection.drive.next_probe`."""
    if n < 1:
        raise ValueError("nothing to search: no variants")
    if direction is Direction.FIXED:
        skipped = [n - 1 - i for i in skipped]
    return _steps(_Sizes(n, skipped, plan or SizePlan()))


class _Sizes:
    """Measurements per variant; changed by :meth:`ask` alone."""

    def __init__(self, n: int, skipped: Collection[int], plan: SizePlan) -> None:
        self.n = n
        self.plan = plan
        self.known_skips = frozenset(skipped)
        self.skips: dict[int, int] = {}
        self.measured: dict[int, list[float]] = {}
        self.skips_in_a_row = 0
        self.runs_left = plan.max_runs

    def ask(self, index: int) -> Measuring[bool]:
        """One measurement; False when there was none."""
        if self.runs_left == 0:
            raise Spent
        self.runs_left -= 1
        seen = yield index
        if isinstance(seen, Seen):
            if seen is not Seen.SKIP:
                raise TypeError(f"variant {index}: a search by size needs a size, not {seen}")
            self.skips[index] = self.skips.get(index, 0) + 1
            self.skips_in_a_row += 1
            return False
        if seen < 0:
            raise ValueError(f"variant {index}: {seen} is not the size of an error")
        if index not in self.measured:
            self.skips_in_a_row = 0
        self.measured.setdefault(index, []).append(float(seen))
        return True

    def measure(self, index: int) -> Measuring[bool]:
        for _ in range(self.plan.repeats):
            if not (yield from self.ask(index)):
                return index in self.measured
        return True

    def tellable(self, index: int) -> bool:
        return not (index in self.known_skips or index in self.skips or index in self.measured)

    def size(self, index: int) -> float:
        clear = [CEILING if math.isnan(v) else v for v in self.measured[index]]
        return statistics.median(clear)

    def log(self, index: int) -> float:
        return math.log2(min(max(self.size(index), self.plan.floor), CEILING))

    def steps(self) -> list[tuple[float, int, int]]:
        """Measured neighbours and the rise of the log size between them, highest first."""
        known = sorted(self.measured)
        rises = [(self.log(b) - self.log(a), a, b) for a, b in pairwise(known)]
        return sorted(rises, key=lambda step: (-round(step[0], 9), step[1]))

    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(
            Evidence(
                i,
                good=len(self.measured.get(i, ())),
                skip=self.skips.get(i, 0),
                size=self.size(i) if i in self.measured else None,
            )
            for i in sorted({*self.measured, *self.skips})
        )


def _steps(sizes: _Sizes) -> Steps[Observation]:
    if sizes.n == 1:
        return NoDifference("both ends are the same variant")
    try:
        wrong = yield from _check_ends(sizes)
        if wrong is not None:
            return wrong
        if sizes.n - len(sizes.known_skips) <= sizes.plan.judge_all:
            for index in range(sizes.n):
                if sizes.tellable(index):
                    yield from sizes.measure(index)
        while True:
            yield from _narrow(sizes)
            if (yield from _confirm(sizes)):
                return _answer(sizes, "nothing can be told of the variants between")
    except Spent:
        return _answer(sizes, f"stopped at the limit of {sizes.plan.max_runs} runs")


def _check_ends(sizes: _Sizes) -> Measuring[BadEnds | NoDifference | None]:
    last = sizes.n - 1
    for end, name in ((last, "bad"), (0, "good")):
        if end in sizes.known_skips or not (yield from sizes.measure(end)):
            good_end, bad_end = (Seen.SKIP, None) if end == 0 else (None, Seen.SKIP)
            why = f"nothing can be told at the {name} end"
            return BadEnds(name, why, good_end, bad_end, sizes.evidence())
    rise = sizes.log(last) - sizes.log(0)
    shown = (
        f"the error is {sizes.size(0):.4g} at the good end and {sizes.size(last):.4g} at the bad"
    )
    if abs(rise) < math.log2(sizes.plan.step):
        return NoDifference(shown, sizes.evidence())
    if rise < 0:
        return BadEnds("both", f"{shown}: they are swapped", Seen.BAD, Seen.GOOD, sizes.evidence())
    return None


def _narrow(sizes: _Sizes) -> Measuring[None]:
    """Split the highest step until nothing between its two sides can be told."""
    while sizes.skips_in_a_row < sizes.plan.skips_in_a_row:
        _, low, high = sizes.steps()[0]
        between = [i for i in range(low + 1, high) if sizes.tellable(i)]
        if not between:
            return
        yield from sizes.measure(_middle(sizes, low, high, between))


def _middle(sizes: _Sizes, low: int, high: int, between: list[int]) -> int:
    """The variant that splits the span best, the farther from skipped ones the better."""
    skipped = np.array([i in sizes.skips for i in range(low, high + 1)])
    told = np.zeros(high - low + 1, dtype=np.bool_)
    risk = skip_risk(skipped, told)

    def worth(index: int) -> float:
        share = (index - low) / (high - low)
        split = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
        return round(split * (1 - float(risk[index - low])), 9)

    return max(between, key=lambda index: (worth(index), -index))


def _confirm(sizes: _Sizes) -> Measuring[bool]:
    """Measure the two sides again in turns; False when that made another step the highest."""
    _, low, high = sizes.steps()[0]
    for _ in range(sizes.plan.confirm):
        for side in (low, high):
            if sizes.skips.get(side, 0) == 0:
                yield from sizes.ask(side)
    return sizes.steps()[0][1:] == (low, high)


def _noise(sizes: _Sizes) -> float:
    """Standard deviation of repeated measurements in powers of two, at least ``LEAST_NOISE``."""
    squares, freedom = 0.0, 0
    for index, values in sizes.measured.items():
        middle = sizes.log(index)
        logs = [math.log2(min(max(v, sizes.plan.floor), CEILING)) for v in values if v == v]
        squares += sum((value - middle) ** 2 for value in logs)
        freedom += len(values) - 1
    return max(LEAST_NOISE, math.sqrt(squares / freedom) if freedom else 0.0)


def _confidence(sizes: _Sizes, rise: float) -> float:
    """1 less the chance that noise put any measured variant on the wrong side of the step's middle.

    Normal noise on the log scale: each variant is misjudged with probability
    ``erfc(rise / (2 sqrt(2) noise)) / 2``.
    """
    misjudged = 0.5 * math.erfc(rise / (2 * math.sqrt(2) * _noise(sizes)))
    return max(0.0, 1 - len(sizes.measured) * misjudged)


def _answer(sizes: _Sizes, why: str) -> Answer:
    if not {0, sizes.n - 1} <= set(sizes.measured):
        return BadEnds("good", f"{why} before both ends were known", None, None, sizes.evidence())
    rise, good, bad = sizes.steps()[0]
    least = math.log2(sizes.plan.step)
    transitions = tuple(
        Transition(a, b, sizes.size(a), sizes.size(b))
        for step, a, b in sorted(sizes.steps(), key=lambda step: step[1])
        if abs(step) >= least
    )
    notes = []
    if rise < least:
        notes.append("the error grows in many small steps; this is the largest of them")
    if any(sizes.tellable(i) for i in range(good + 1, bad)) and sizes.runs_left:
        why = f"stopped after {sizes.skips_in_a_row} variants in a row that could not be told"
    evidence = sizes.evidence()
    found = Range(
        direction=Direction.REGRESSION,
        confidence=_confidence(sizes, rise),
        tested=tuple(e.index for e in evidence),
        transitions=transitions,
        evidence=evidence,
        notes=tuple(notes),
        good_size=sizes.size(good),
        bad_size=sizes.size(bad),
        good=good,
        bad=bad,
        untested=tuple(range(good + 1, bad)),
        why=why,
    )
    return found.narrowed()
