"""Running cases on one unit against its baseline: results, findings and what machinery lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from diffuzz import corpus
from diffuzz.campaign import Job, Runner, run_cases
from diffuzz.case import Case
from diffuzz.finding import Finding, Verdict
from diffuzz.folding import Fold, JobResult
from diffuzz.minimise import folded, minimise_finding
from diffuzz.nightly.join import Data
from diffuzz.outcome import is_machinery
from diffuzz.report import data, pictures


@dataclass(frozen=True)
class Ran:
    """What a batch of cases came to. ``told`` are the cases that got a verdict; ``complete`` says
    that none was left out for want of time."""

    result: JobResult
    told: list[Case]
    complete: bool


class Fuzzer:
    """The open workers of one job. Findings are folded batch by batch."""

    def __init__(self, job: Job, folder: Path, *, lanes: int, time_limit: float) -> None:
        self.job = job
        self.lanes = lanes
        self._runner = Runner(job, folder, lanes=lanes, time_limit=time_limit)

    def __enter__(self) -> Fuzzer:
        return self

    def __exit__(self, *exc: object) -> None:
        self._runner.__exit__(*exc)

    def run(self, cases: Sequence[Case], until: float, count: Callable[[], None]) -> Ran:
        """Run ``cases`` until the time is up (``time.monotonic``)."""
        fold, begun, told, ran = Fold(self.job), time.monotonic(), [], 0
        for result in run_cases(self._runner, cases, self.lanes, until):
            fold.add(result)
            ran += 1
            reason = result.baseline.unknown or result.candidate.unknown
            if result.verdict is not Verdict.UNKNOWN or not is_machinery(reason or ""):
                told.append(result.case)
            count()
        done = fold.finish()
        done.seconds = time.monotonic() - begun
        return Ran(done, told, ran == len(cases))

    def shrink(self, finding: Finding, seconds: float) -> Finding:
        """On the simplest case that shows it, looked for no longer than ``seconds``."""
        return minimise_finding(finding, self._runner, lanes=self.lanes, seconds=seconds)

    def reported(self, finding: Finding) -> dict[str, Any]:
        """The finding as report data, with a picture of its error."""
        outcomes, expected = self._runner.observe(finding.case)
        said = data.finding(finding, "", self.job.target.axes)
        said["errors"] = pictures.errors(finding.defect.aspect, *outcomes, expected)
        said |= finding.extra
        return said


def accepted(entries: Sequence[corpus.Entry], finding: Finding, today: date) -> Data | None:
    """Until when the corpus has a finding as known, so that it does not go red; None for any
    other."""
    known = corpus.find(entries, finding.case.target, finding.defect.signature)
    said = corpus.expectation(known, today) if known is not None else None
    if known is None or said is None or said.red or known.expected is None:
        return None
    return {"until": str(known.expected.expires), "text": said.text}


def signature(finding: Finding) -> str:
    """What makes two findings of one unit the same, whatever their direction."""
    return folded(finding.defect.signature)


def summary(ran: Ran, wanted: int) -> str:
    """What a batch came to in a few words; ``wanted`` cases were to be run."""
    parts = [f"{ran.result.cases} cases"]
    if not ran.complete:
        parts.append(f"{wanted - ran.result.cases} not begun: the budget is used up")
    return "; ".join([*parts, *filter(None, [lost_text(ran)]), *_unknown(ran)])


def lost_text(ran: Ran) -> str:
    """What machinery lost, and why; empty if nothing."""
    reasons = {r: n for r, n in ran.result.unknown_reasons.items() if is_machinery(r)}
    if not reasons:
        return ""
    worst = max(reasons, key=lambda reason: (reasons[reason], reason))
    return f"{sum(reasons.values())} lost to machinery ({worst})"


def _unknown(ran: Ran) -> list[str]:
    reasons = {r: n for r, n in ran.result.unknown_reasons.items() if not is_machinery(r)}
    return [f"{count} cannot be told ({reason})" for reason, count in sorted(reasons.items())]


def target_data(result: JobResult, cases: Sequence[Case], *, what: str) -> Mapping[str, Any]:
    """The batch as a target of a report; ``what`` says why it was run."""
    return {**data.target(result, []), "night": what, "case_ids": len({c.id for c in cases})}
