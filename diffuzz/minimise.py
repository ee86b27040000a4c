"""Shrinking a finding with real workers: the simplest case that shows the same mistake.

What "the same" means: a defect with the finding's signature (as the campaign folds it) in the
finding's direction; where any simpler case names the mistake without a rival hypothesis, only
such cases count. What "simplest" means: :func:`diffuzz.case.sort_key`. The search itself is
:mod:`diffuzz.shrink`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from diffuzz.campaign import CaseResult, Job, Runner
from diffuzz.case import Case
from diffuzz.errors import UsageError
from diffuzz.finding import Defect, Direction, Finding
from diffuzz.folding import FEW_WRONG, is_certain, mistake
from diffuzz.shrink import Rates, ShrinkResult, shrink

# Runs that decide whether a failure that did not repeat is unsteady or gone, and keep its rate.
UNSTEADY_RUNS = 8
# The campaign ends a finding's message with the flags all its cases share; a smaller case of the
# same finding does not change those.
_FLAGS = "; always with "


@dataclass(frozen=True)
class Minimised:
    """The simplest case found and what it shows.

    ``tried`` counts the cases run on the way; ``exhausted`` says that the time was up before the
    search was done; ``rates`` is given for failures that do not show in every run.
    """

    case: Case
    result: CaseResult
    defect: Defect
    tried: int
    exhausted: bool
    rates: Rates | None = None
    others: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        same = f" (the same in {', '.join(self.others)})" if self.others else ""
        return self.defect.message + same


@dataclass(frozen=True)
class Wanted:
    """What a case must show to count: the mistake and its direction.

    ``least`` wrong elements where the mistake has no name: with few of them any mistake looks
    like any other, and shrinking must not slip from one to another.
    """

    signature: str
    direction: Direction
    least: int = 0

    def shown_by(self, result: CaseResult) -> list[Defect]:
        """The defects of ``result`` that are the mistake, those named for certain first."""
        same = [
            defect
            for defect, direction in result.defects
            if direction is self.direction and mistake(defect.signature) == folded(self.signature)
        ]
        return sorted(same, key=lambda defect: not is_certain(defect))


def _wrong(defect: Defect) -> int:
    return 0 if defect.measure is None else defect.measure.wrong


def folded(signature: str) -> str:
    """A defect's signature as findings have it; one that is folded already stays as it is."""
    return mistake(signature) if signature.count(":") > 1 else signature


def minimise(
    case: Case,
    signature: str,
    direction: Direction,
    runner: Runner,
    *,
    lanes: int = 1,
    seconds: float | None = None,
    repeats: int = 1,
) -> Minimised:
    """Shrink ``case`` on the open ``runner``, which has ``lanes`` lanes.

    ``seconds`` caps the search (a case that is running ends first). ``repeats`` above 1 treats
    the failure as unsteady: each case is run that often, and must fail at least half as often as
    the first. A failure that does not show at once is taken to be unsteady anyway. The result
    depends neither on ``lanes`` nor on which of them is faster, unless the time is up. Raises
    :class:`UsageError` when ``case`` does not show the failure.
    """
    search = _Search(case, Wanted(signature, direction), runner, lanes, repeats)
    return search.run(seconds)


class _Search:
    """One shrinking. ``results`` keeps the last result that showed the failure, by case."""

    def __init__(
        self, case: Case, wanted: Wanted, runner: Runner, lanes: int, repeats: int
    ) -> None:
        self.start = case
        self.wanted = wanted
        self.runner = runner
        self.lanes = lanes
        self.repeats = repeats
        self.results: dict[str, CaseResult] = {}

    def run(self, seconds: float | None) -> Minimised:
        until = None if seconds is None else time.monotonic() + seconds
        self._first_look()
        found = self._shrink(self._certainly, until)
        tried = found.tried
        if found.case == self.start and not found.exhausted:
            # Nothing simpler is named for certain. Had the first case been, this would be the end.
            found = self._shrink(self._shows, until)
            tried = max(tried, found.tried)
        result = self.results[found.case.id]
        defect, *others = self.wanted.shown_by(result)
        aspects = tuple(other.aspect for other in others)
        return Minimised(found.case, result, defect, tried, found.exhausted, found.rates, aspects)

    def _first_look(self) -> None:
        """Find out whether the case shows the failure, and whether it does at once."""
        for run in range(max(self.repeats, UNSTEADY_RUNS)):
            if self._shows(self.start):
                if run > 0:
                    self.repeats = max(self.repeats, UNSTEADY_RUNS)
                self._hold_to_size()
                return
        raise UsageError(
            f"case {self.start.id} does not show {self.wanted.signature!r} as"
            f" {self.wanted.direction.value} on {self.runner.job.arch.name} on these revisions:"
            " nothing to shrink"
        )

    def _hold_to_size(self) -> None:
        """Keep a mistake without a name from shrinking into the next best one."""
        if self.wanted.signature.endswith(":values"):
            shown = self.wanted.shown_by(self.results[self.start.id])
            least = min(FEW_WRONG, max(_wrong(defect) for defect in shown))
            self.wanted = replace(self.wanted, least=least)

    def _shows(self, case: Case) -> bool:
        result = self.runner.run(case)
        if not self.wanted.shown_by(result):
            return False
        self.results[case.id] = result
        return True

    def _certainly(self, case: Case) -> bool:
        """As ``_shows``, with an explanation that has no rival, but for the first case."""
        if not self._shows(case):
            return False
        return case == self.start or is_certain(self.wanted.shown_by(self.results[case.id])[0])

    def _shrink(self, interesting: Callable[[Case], bool], until: float | None) -> ShrinkResult:
        target = self.runner.job.target
        look: Callable[..., ShrinkResult] = partial(
            shrink,
            self.start,
            target.axes,
            interesting,
            allowed=target.allowed,
            settle=target.settle,
            seconds=None if until is None else max(0.0, until - time.monotonic()),
            repeats=self.repeats,
        )
        if self.lanes == 1:
            return look()
        with ThreadPoolExecutor(self.lanes) as threads:
            return look(map=threads.map, batch=self.lanes)


def minimise_finding(
    finding: Finding, runner: Runner, *, lanes: int = 1, seconds: float | None = None
) -> Finding:
    """``finding`` on the simplest case that shows it, with that case's message and measures.

    Its signature, direction, hits and reach stay. A finding that does not show again is returned
    as it is, with ``extra["shrunk"]`` saying so; otherwise that holds the tries and, for unsteady
    ones, the failure rates.
    """
    try:
        found = minimise(
            finding.case,
            finding.defect.signature,
            finding.direction,
            runner,
            lanes=lanes,
            seconds=seconds,
        )
    except UsageError:
        said = {"shrunk": {"tried": 0, "why": f"did not show again in {UNSTEADY_RUNS} runs"}}
        return replace(finding, extra={**finding.extra, **said})
    return applied(finding, found)


def applied(finding: Finding, found: Minimised) -> Finding:
    """``finding`` as ``found`` shows it."""
    _, flags, setting = finding.defect.message.partition(_FLAGS)
    defect = replace(
        found.defect,
        signature=finding.defect.signature,
        message=found.message + flags + setting,
        location=found.defect.location or finding.defect.location,
    )
    shrunk: dict[str, object] = {"tried": found.tried, "complete": not found.exhausted}
    if found.rates is not None:
        rates = found.rates
        shrunk["rates"] = {"runs": rates.runs, "before": rates.before, "after": rates.after}
    return replace(
        finding,
        defect=defect,
        case=found.case,
        baseline_measure=found.result.baseline.measures.get(defect.aspect),
        candidate_measure=found.result.candidate.measures.get(defect.aspect),
        extra={**finding.extra, "shrunk": shrunk},
    )


def summary(before: Case, found: Minimised, job: Job) -> list[str]:
    """Lines for people: what moved away from the defaults before and after."""
    return [
        f"before {before.id}: {_moved(before, job)}",
        f"after  {found.case.id}: {_moved(found.case, job)}",
        f"{found.tried} cases tried" + (", time was up" if found.exhausted else ""),
        *_rates(found.rates),
    ]


def _rates(rates: Rates | None) -> list[str]:
    if rates is None:
        return []
    return [f"fails in {rates.after} of {rates.runs} runs (before: {rates.before})"]


def _moved(case: Case, job: Job) -> str:
    axes = [axis for axis in job.target.axes if case[axis.name] != axis.default]
    shown = [f"{axis.name}={case[axis.name]}" for axis in axes]
    if case.seed:
        shown.append(f"seed={case.seed}")
    return " ".join(shown) or "every axis at its default"
