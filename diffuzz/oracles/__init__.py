"""Oracles: what is right, what is wrong and why, from hand-made or real outcomes alike.

:func:`judge` looks at one revision, :func:`compare` gives the defects of two a direction,
:func:`assess` does both for a case. Pure functions; nothing here runs a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from torch import Tensor

from diffuzz.errors import UsageError
from diffuzz.expected import Expected, ExpectedBits
from diffuzz.finding import Defect, Judged, Measure, Verdict
from diffuzz.numerics.poison import same_bits
from diffuzz.oracles.accuracy import Judgement, judge_output
from diffuzz.oracles.agreement import agree
from diffuzz.oracles.pairing import Difference, compare, verdict
from diffuzz.oracles.sanity import judge_run
from diffuzz.oracles.wording import is_unexplained, same_defect
from diffuzz.outcome import Outcome, Returned

Expectations = Mapping[str, Expected | ExpectedBits]
# The output last judged of each name, and what was found.
Seen = dict[str, tuple[Tensor, Judgement]]


@dataclass(frozen=True)
class Assessment:
    """One case on two revisions."""

    baseline: Judged
    candidate: Judged
    differences: list[Difference]
    verdict: Verdict


def judge(outcome: Outcome, expectations: Expectations) -> Judged:
    """Judge one revision's outcome.

    ``right`` holds the names of the outputs that are right, and ``run`` if the run came back
    without a sanitizer report. :class:`UsageError` if the target returned an output it stated no
    expectation for.
    """
    return _judge(outcome, expectations, {})


def _judge(outcome: Outcome, expectations: Expectations, seen: Seen) -> Judged:
    run = judge_run(outcome)
    if run.unknown is not None or not isinstance(outcome, Returned):
        return run
    extra = sorted(set(outcome.outputs) - set(expectations))
    if extra:
        raise UsageError(
            f"the target returned {', '.join(extra)} without an expectation; "
            f"it states {', '.join(sorted(expectations)) or 'none'}"
        )
    right, defects = set(run.right), list(run.defects)
    measures: dict[str, Measure] = {}
    for name, expected in expectations.items():
        found, measured = _judge_output(name, outcome.outputs.get(name), expected, seen)
        if measured is not None:
            measures[name] = measured
        if not found:
            right.add(name)
        defects += found
    return Judged(frozenset(right), tuple(defects), None, measures)


def _judge_output(
    name: str, output: Tensor | None, expected: Expected | ExpectedBits, seen: Seen
) -> Judgement:
    if output is None:
        return judge_output(name, output, expected)
    if name not in seen or not same_bits(seen[name][0], output):
        seen[name] = output, judge_output(name, output, expected)
    return seen[name][1]


def _evaluated_once(expected: Expected | ExpectedBits) -> Expected | ExpectedBits:
    if isinstance(expected, ExpectedBits):
        return expected
    hypotheses: dict[str, Callable[[], Tensor]]
    hypotheses = {name: cache(make) for name, make in expected.hypotheses.items()}
    return replace(expected, hypotheses=hypotheses)


def assess(baseline: Outcome, candidate: Outcome, expectations: Expectations) -> Assessment:
    """Judge both revisions on a case and pair what is wrong."""
    # Most outputs are the same bits on both sides, and both are wrong by the same hypotheses.
    stated = {name: _evaluated_once(each) for name, each in expectations.items()}
    seen: Seen = {}
    before, after = (_judge(each, stated, seen) for each in (baseline, candidate))
    differences = compare(before, after) + _agreement(
        baseline, candidate, expectations, before, after
    )
    return Assessment(before, after, differences, verdict(before, after, differences))


def _agreement(
    baseline: Outcome,
    candidate: Outcome,
    expectations: Expectations,
    before: Judged,
    after: Judged,
) -> list[Difference]:
    """The outputs that both revisions got right, compared for how precise they are."""
    if not (isinstance(baseline, Returned) and isinstance(candidate, Returned)):
        return []
    found = []
    for name, expected in expectations.items():
        if isinstance(expected, Expected) and name in before.right and name in after.right:
            difference = agree(name, expected, baseline.outputs[name], candidate.outputs[name])
            if difference is not None:
                found.append(difference)
    return found


__all__ = [
    "Assessment",
    "Defect",
    "Difference",
    "Expectations",
    "assess",
    "compare",
    "is_unexplained",
    "judge",
    "same_defect",
    "verdict",
]
