"""Cases of a run again, on a build of the native ops under ASan and UBSan.

One case for each combination of options is enough: which code runs depends on the options, and a
sanitizer tells of each place once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from diffuzz import oracles
from diffuzz.campaign import CaseResult, Runner, Side
from diffuzz.case import Case, Choice
from diffuzz.errors import CannotTell
from diffuzz.executors import native_ops, sanitized
from diffuzz.finding import Judged
from diffuzz.oracles.sanity import RUN, report_defects
from diffuzz.outcome import Report

# At most this many cases a side: each runs some ten times slower than plain.
_CASES = 32


@dataclass(frozen=True)
class Sanitized:
    """What came of it: the cases run, those with a report as results, and why nothing could be
    told where that is so."""

    cases: int
    results: tuple[CaseResult, ...] = ()
    note: str = ""


def distinct(cases: Sequence[Case], axes: Sequence[object]) -> list[Case]:
    """The first case of each combination of options, in order."""
    options = [axis.name for axis in axes if isinstance(axis, Choice)]
    first: dict[tuple[object, ...], Case] = {}
    for case in cases:
        first.setdefault(tuple(case[name] for name in options), case)
    return list(first.values())[:_CASES]


def sanitize(runner: Runner, cases: Sequence[Case]) -> Sanitized:
    """Replay ``cases`` of the open ``runner`` on sanitized builds of both sides' native ops."""
    job = runner.job
    chosen = distinct(cases, job.target.axes)
    try:
        before = _reports(runner, "baseline", job.baseline, chosen)
        after = before if job.same else _reports(runner, "candidate", job.candidate, chosen)
    except CannotTell as error:
        return Sanitized(0, note=error.reason)
    results = []
    for case in chosen:
        baseline, candidate = _judged(before.get(case.id, ())), _judged(after.get(case.id, ()))
        defects = tuple(oracles.compare(baseline, candidate))
        if defects:
            verdict = oracles.verdict(baseline, candidate, list(defects))
            results.append(CaseResult(case, baseline, candidate, verdict, defects))
    return Sanitized(len(chosen), tuple(results))


def _reports(
    runner: Runner, name: str, side: Side, cases: Sequence[Case]
) -> dict[str, tuple[Report, ...]]:
    if side.closure is None:
        raise CannotTell("no native ops")
    built = native_ops.plan(side.closure, runner.job.arch, sanitize=True)
    setup = replace(runner.setup(f"{name}-sanitized", side), native=built.to_dict(), memory_limit=0)
    return sanitized.replay(setup, cases)


def _judged(reports: Sequence[Report]) -> Judged:
    defects = tuple(report_defects(reports))
    return Judged(right=frozenset() if defects else frozenset({RUN}), defects=defects)
