"""The loop: propose, filter, test, accept; until no pass proposes anything that works."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from diffuzz.case import Axis, Case, sort_key
from diffuzz.errors import UsageError
from diffuzz.shrink.passes import PASSES, Pass, Space

Interesting = Callable[[Case], bool]
Map = Callable[[Interesting, Sequence[Case]], Iterable[bool]]


@dataclass(frozen=True)
class Step:
    """A case that was accepted, and the pass that proposed it."""

    how: str
    case: Case


@dataclass(frozen=True)
class Rates:
    """Failures in ``runs`` runs of the first and of the final case."""

    runs: int
    before: int
    after: int


@dataclass(frozen=True)
class ShrinkResult:
    """``case`` is the simplest found. ``tried`` counts the distinct cases judged on the way.

    ``exhausted``: a cap on time or tries ended it; ``case`` is then the simplest so far and not
    a fixed point. ``rates`` is None unless ``repeats`` was given.
    """

    case: Case
    tried: int
    steps: tuple[Step, ...]
    exhausted: bool
    rates: Rates | None = None


def shrink(
    case: Case,
    axes: Sequence[Axis],
    interesting: Interesting,
    *,
    allowed: Callable[[Case], str | None] = lambda case: None,
    settle: Callable[[Case], Case] = lambda case: case,
    seconds: float | None = None,
    max_tries: int | None = None,
    repeats: int = 1,
    keep: float = 0.5,
    map: Map = builtins.map,
    batch: int = 1,
    clock: Callable[[], float] = time.monotonic,
    passes: Sequence[tuple[str, Pass]] = PASSES,
) -> ShrinkResult:
    """Find the simplest case, by :func:`diffuzz.case.sort_key`, that is still interesting.

    ``interesting`` says whether a case fails in the same way (same signature and direction). For
    an unsteady failure give ``repeats``: the first case is run that often, and a case counts as
    interesting when it fails at least ``keep`` times as often as the first did.

    ``map`` judges up to ``batch`` candidates at once (``ThreadPoolExecutor.map``, say). It must
    keep their order; the first interesting one in order is taken, so the result and ``tried`` do
    not depend on ``map`` or ``batch``.

    ``settle`` is applied to each candidate before it is judged. Raises :class:`UsageError` when
    ``case`` itself is not interesting.
    """
    space = Space(axes, allowed, settle)
    before, judge = _first_look(case, interesting, repeats, keep)
    judged = _Judged(space, judge, map, batch, max_tries)
    if seconds is not None:
        judged.until = (clock, clock() + seconds)
    steps: list[Step] = []
    while True:
        last = case
        for name, propose in passes:
            while (found := judged.first(propose(case, space), case)) is not None:
                case = found
                steps.append(Step(name, case))
        if case is last or judged.spent:
            break
    rates = None
    if repeats > 1:
        rates = Rates(repeats, before, sum(bool(interesting(case)) for _ in range(repeats)))
    return ShrinkResult(case, len(judged.counted), tuple(steps), judged.spent, rates)


def _first_look(
    case: Case, interesting: Interesting, repeats: int, keep: float
) -> tuple[int, Interesting]:
    """How often the first case fails, and the predicate for all others."""
    failures = sum(bool(interesting(case)) for _ in range(repeats))
    if failures == 0:
        times = "" if repeats == 1 else f" in {repeats} runs"
        raise UsageError(f"case {case.id} does not show the failure{times}: nothing to shrink")
    if repeats == 1:
        return failures, interesting
    wanted = max(1, round(keep * failures))
    return failures, partial(_often, interesting, repeats, wanted)


def _often(interesting: Interesting, repeats: int, wanted: int, case: Case) -> bool:
    """Whether at least ``wanted`` of ``repeats`` runs fail; ends as soon as that is known."""
    failures = 0
    for left in range(repeats, 0, -1):
        if failures + left < wanted:
            return False
        failures += bool(interesting(case))
        if failures >= wanted:
            return True
    return False


class _Judged:
    """What was judged so far, and the caps on judging more.

    ``verdicts`` may run ahead of ``counted`` when candidates are judged several at once.
    """

    def __init__(
        self, space: Space, judge: Interesting, map: Map, batch: int, max_tries: int | None
    ) -> None:
        self.space = space
        self.judge = judge
        self.map = map
        self.batch = batch
        self.max_tries = max_tries
        self.until: tuple[Callable[[], float], float] | None = None
        self.verdicts: dict[str, bool] = {}
        self.counted: set[str] = set()
        self.spent = False

    def first(self, candidates: Iterator[Case], current: Case) -> Case | None:
        """The first candidate that is simpler than ``current``, allowed and interesting."""
        fresh = self._fresh(candidates, sort_key(current, self.space.axes))
        while group := list(islice(fresh, self.batch)):
            if self._is_spent():
                return None
            if self.max_tries is not None:
                group = group[: self.max_tries - len(self.counted)]
            unknown = [case for case in group if case.id not in self.verdicts]
            answers = iter(self.map(self.judge, unknown)) if unknown else iter(())
            for case in group:
                if case.id not in self.verdicts:
                    self.verdicts[case.id] = bool(next(answers))
                self.counted.add(case.id)
                if self.verdicts[case.id]:
                    return case
        return None

    def _fresh(self, candidates: Iterator[Case], bound: tuple[object, ...]) -> Iterator[Case]:
        proposed = set(self.counted)
        for candidate in candidates:
            case = self.space.settle(candidate)
            if case.id in proposed or sort_key(case, self.space.axes) >= bound:
                continue
            proposed.add(case.id)
            if self.space.allowed(case) is None:
                yield case

    def _is_spent(self) -> bool:
        over_time = self.until is not None and self.until[0]() >= self.until[1]
        over_tries = self.max_tries is not None and len(self.counted) >= self.max_tries
        self.spent = self.spent or over_time or over_tries
        return self.spent
