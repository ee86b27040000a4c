"""Folds case results into findings: one for each direction and mistake, shown on its simplest case.

Everything here is a function of the results in case order, so that a report does not depend on
which worker was faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from diffuzz import oracles
from diffuzz.campaign import CaseResult, Job
from diffuzz.case import Case, sort_key
from diffuzz.finding import Defect, Direction, Finding, Kind, Verdict
from diffuzz.outcome import Location
from diffuzz.slicing import Slice
from diffuzz.target import Target

# Kinds from the one that tells most of the cause to the one that tells least.
_TELLING = [
    Kind.COMPILE,
    Kind.ASSERTION,
    Kind.CRASH,
    Kind.HANG,
    Kind.OUT_OF_BOUNDS,
    Kind.RACE,
    Kind.PRECISION,
    Kind.WRONG_RESULT,
    Kind.NON_FINITE,
    Kind.NONDETERMINISM,
]
# A finding follows another when this share of its cases shows the other as well.
_NEARLY_ALL = 0.8
# Fewer wrong elements than this in a case are weak evidence for a defect of their own.
FEW_WRONG = 32
# With this many cases, a flag that never varied by chance is one in 2**4.
_TELLING_HITS = 5


@dataclass
class JobResult:
    """What a job came to, folded in case order."""

    job: Job
    cases: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    unknown_reasons: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0


class Fold:
    """Folds case results into a :class:`JobResult`: one finding for each direction and defect.

    What one mistake does to several outputs is one finding: defects that an explainer gave the
    same name are folded whatever the output, and unexplained ones with few wrong elements join an
    explained one of the same output and direction.
    """

    def __init__(self, job: Job) -> None:
        self.result = JobResult(job)
        self._hits: dict[tuple[str, Direction], list[tuple[CaseResult, Defect]]] = {}

    def add(self, result: CaseResult) -> None:
        self.result.cases += 1
        self.result.verdicts[result.verdict] += 1
        if result.verdict is Verdict.UNKNOWN:
            reason = result.baseline.unknown or result.candidate.unknown or "not said"
            self.result.unknown_reasons[reason] += 1
        self.add_defects(result)

    def add_defects(self, result: CaseResult) -> None:
        """The defects of a case that is counted already."""
        for defect, direction in result.defects:
            key = (mistake(defect.signature), direction)
            self._hits.setdefault(key, []).append((result, defect))

    def finish(self) -> JobResult:
        """Make the findings, the worst direction and the most telling kind first, each on its
        simplest case."""
        self._adopt_unexplained()
        order = [Direction.REGRESSION, Direction.FIXED, Direction.BOTH]
        shown: list[tuple[Finding, set[str]]] = []
        for (signature, direction), hits in sorted(
            self._hits.items(),
            key=lambda item: (
                order.index(item[0][1]),
                _TELLING.index(item[1][0][1].kind),
                -len(item[1]),
                item[0][0],
            ),
        ):
            finding = self._finding(signature, direction, hits)
            ids = {hit[0].case.id for hit in hits}
            root = next((f.id for f, cases in shown if _covers(f, cases, finding, ids)), None)
            shown.append((replace(finding, follows=root), ids))
        self.result.findings = [finding for finding, _ in shown]
        return self.result

    def _adopt_unexplained(self) -> None:
        """Hits too small to explain join what was explained of the same output and direction."""
        for key in [key for key in self._hits if _is_nameless(key[0])]:
            adopter = next((o for o in self._hits if self._explains(o, key)), None)
            small = [hit for hit in self._hits[key] if _is_small(hit[1])]
            if adopter is None or not small:
                continue
            self._hits[adopter].extend(small)
            rest = [hit for hit in self._hits[key] if not _is_small(hit[1])]
            if rest:
                self._hits[key] = rest
            else:
                del self._hits[key]

    def _explains(self, other: tuple[str, Direction], key: tuple[str, Direction]) -> bool:
        aspect = self._hits[key][0][1].aspect
        return (
            other[1] is key[1]
            and not _is_nameless(other[0])
            and any(defect.aspect == aspect for _, defect in self._hits[other])
        )

    def _finding(
        self, signature: str, direction: Direction, hits: list[tuple[CaseResult, Defect]]
    ) -> Finding:
        job, axes = self.result.job, self.result.job.target.axes
        telling = [hit for hit in hits if mistake(hit[1].signature) == signature]
        certain = [hit for hit in telling if is_certain(hit[1])] or telling
        result = min((hit[0] for hit in certain), key=lambda r: sort_key(r.case, axes))
        shown = [hit for hit in telling if hit[0] is result]
        defect = min((hit[1] for hit in shown), key=lambda d: not is_certain(d))
        wrong_side = 0 if direction is Direction.FIXED else 1
        others = [other.aspect for _, other in shown if other is not defect]
        message = defect.message + (f" (the same in {', '.join(others)})" if others else "")
        flags = decisive_flags(job.facts[wrong_side], [hit[0].case for hit in hits])
        backends = reach(job.facts[wrong_side], flags)
        if flags:
            setting = ", ".join(f"{name}={value}" for name, value in flags.items())
            message += f"; always with {setting}, as in {', '.join(backends) or 'no backend'}"
        piece = (job.baseline, job.candidate)[wrong_side].slice
        return Finding(
            defect=replace(
                defect,
                signature=signature,
                message=message,
                location=defect.location or entry_location(job.target, piece),
            ),
            direction=direction,
            case=result.case,
            arch=job.arch.name,
            executor=job.executor,
            baseline_measure=result.baseline.measures.get(defect.aspect),
            candidate_measure=result.candidate.measures.get(defect.aspect),
            reach=backends,
            cases_hit=len({hit[0].case.id for hit in hits}),
        )


def _covers(first: Finding, cases: set[str], later: Finding, ids: set[str]) -> bool:
    return (
        first.follows is None
        and first.direction is later.direction
        and len(ids & cases) >= _NEARLY_ALL * len(ids)
    )


def _is_small(defect: Defect) -> bool:
    return defect.measure is not None and defect.measure.wrong < FEW_WRONG


def is_certain(defect: Defect) -> bool:
    """Whether no rival hypothesis explains the defect as well."""
    return defect.explanation is None or defect.explanation.certain


def _is_nameless(signature: str) -> bool:
    # A folded signature has two parts: it names a mistake.
    return signature.count(":") > 1 and oracles.is_unexplained(signature)


def mistake(signature: str) -> str:
    """The signature without its output where an explainer named the mistake, else as it is."""
    kind, _, rest = signature.partition(":")
    aspect, _, what = rest.partition(":")
    explained = aspect != "run" and not _is_nameless(signature)
    return f"{kind}:{what}" if explained else signature


def entry_location(target: Target, piece: Slice) -> Location | None:
    """Where the target's first entry stands in the revision: the place to start reading."""
    for entry in target.entries:
        point = piece.entries.get(entry.name)
        if point is not None:
            return Location(point.path, point.line, point.symbol)
    return None


def decisive_flags(facts: Mapping[str, Any], hits: Sequence[Case]) -> dict[str, Any]:
    """Capability flags that had one value in every case of a finding, though they are drawn
    freely. Fewer than :data:`_TELLING_HITS` cases say nothing."""
    if len(hits) < _TELLING_HITS:
        return {}
    flags = {name: {case[name] for case in hits} for name in facts if name in hits[0].values}
    return {name: values.pop() for name, values in flags.items() if len(values) == 1}


def reach(facts: Mapping[str, Any], flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the revision's backends that can have all these flags, sorted; a backend whose
    flag depends on circumstances is marked conditional."""
    reached: set[str] | None = None
    for flag, wanted in flags.items():
        here = {
            name + ("" if value.value == wanted else " (conditional)")
            for name, value in facts[flag].items()
            if value.value in (wanted, "conditional")
        }
        reached = here if reached is None else reached & here
    return tuple(sorted(reached or ()))
