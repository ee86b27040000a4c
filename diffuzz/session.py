"""One run: plan, cases of the corpus and drawn ones, findings, and the report as data."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import torch

from diffuzz import corpus, timing
from diffuzz.campaign import CaseResult, Job, Runner, run_cases
from diffuzz.case import Case
from diffuzz.devices import device_name
from diffuzz.executors.pool import write_request
from diffuzz.finding import Direction, Finding, Verdict
from diffuzz.folding import Fold
from diffuzz.generate import draw_cases
from diffuzz.minimise import minimise_finding
from diffuzz.planning import Plan, plan
from diffuzz.report import data, pictures
from diffuzz.sanitizing import Sanitized, sanitize
from diffuzz.sources import Source
from diffuzz.target import Target

# With only a time budget the number of cases is open; they are drawn in rounds of this many.
_ROUND = 100
# Cases whose times are compared on a GPU.
_TIMED = 40
# Signature of what a caller is told after each case: the name of the job.
Progress = Callable[[str], None]
# Target name, count and seed to cases.
Draw = Callable[[str, int, int], list[Case]]


@dataclass(frozen=True)
class Settings:
    """The user's choices of one run. ``examples`` None means as many as ``budget`` seconds
    allow; ``corpora`` are folders whose cases come first."""

    targets: tuple[str, ...]
    archs: tuple[str, ...]
    executor: str
    examples: int | None
    budget: float | None
    seed: int
    lanes: int
    time_limit: float
    folder: Path
    shrink: bool = False
    sanitize: bool = False
    repo: str | None = None
    target_folders: tuple[str, ...] = ()
    corpora: tuple[Path, ...] = ()


def make_plan(settings: Settings, baseline: Source, candidate: Source) -> Plan:
    """The jobs of a run and what cannot be tested."""
    return plan(
        baseline,
        candidate,
        settings.targets,
        settings.archs,
        settings.executor,
        settings.target_folders,
    )


def run(
    settings: Settings, planned: Plan, baseline: Source, candidate: Source, progress: Progress
) -> dict[str, Any]:
    """Run every job of the plan and return the report (:mod:`diffuzz.report.data`)."""
    # The lanes are the parallelism: tensors are small, and threads of torch's own would only
    # take turns with the workers.
    torch.set_num_threads(1)
    started = time.monotonic()
    # The archs of a target share its cases.
    by_name = {job.target.name: job.target for job in planned.jobs}
    draw = cache(lambda name, count, seed: draw_cases(by_name[name], count=count, seed=seed))
    targets: list[dict[str, Any]] = []
    for index, job in enumerate(planned.jobs):
        until = _share(settings, started, len(planned.jobs) - index)
        targets.append(_run_job(settings, job, until, (baseline, candidate), draw, progress))
    targets += [
        data.untested_target(item.target, item.arch, item.executor, dict(item.slices), item.reason)
        for item in planned.untested
    ]
    return {
        "schema": data.SCHEMA,
        "environment": data.environment(device_name(settings.executor)),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": settings.seed,
        "baseline": data.revision(baseline.identity),
        "candidate": data.revision(candidate.identity),
        "targets": targets,
        "findings": [finding for item in targets for finding in item["findings"]],
    }


def _share(settings: Settings, started: float, jobs_left: int) -> float | None:
    """When the next job must stop drawing: what is left of the budget is shared equally."""
    if settings.budget is None:
        return None
    now = time.monotonic()
    return now + max(0.0, started + settings.budget - now) / jobs_left


def _run_job(
    settings: Settings,
    job: Job,
    until: float | None,
    sources: tuple[Source, Source],
    draw: Draw,
    progress: Progress,
) -> dict[str, Any]:
    entries = [e for folder in settings.corpora for e in corpus.load(folder, job.target)]
    first = [entry.case(job.target.axes) for entry in entries]
    fold, begun = Fold(job), time.monotonic()
    results: list[CaseResult] = []
    with Runner(
        job, settings.folder, lanes=settings.lanes, time_limit=settings.time_limit
    ) as runner:
        for cases in _rounds(settings, job.target, first, draw, until):
            for result in run_cases(runner, cases, settings.lanes, until):
                fold.add(result)
                results.append(result)
                progress(f"{job.target.name} {job.arch.name}")
        checked = _sanitized(settings, runner, results)
        for result in checked.results:
            fold.add_defects(result)
        done = fold.finish()
        findings = [_reported(settings, f, runner, entries, sources) for f in done.findings]
        times = _timed(settings, runner, results)
    done.seconds = time.monotonic() - begun
    return {
        **data.target(done, findings),
        "target_archs": list(job.target.archs),
        "corpus_cases": len(entries),
        "sanitizer": {"cases": checked.cases, "note": checked.note},
        "timing": None if times is None else times.to_dict(),
        "coverage": pictures.coverage(
            [r.case for r in results], job.target.axes, [r.verdict for r in results]
        ),
    }


def _sanitized(settings: Settings, runner: Runner, results: Sequence[CaseResult]) -> Sanitized:
    if not settings.sanitize or settings.executor != "cpu":
        return Sanitized(0, note="not asked for" if settings.executor == "cpu" else "needs the CPU")
    return sanitize(runner, [result.case for result in results])


def _timed(
    settings: Settings, runner: Runner, results: Sequence[CaseResult]
) -> timing.Timing | None:
    """Baseline against candidate in turns on the device, on cases both do right."""
    if settings.executor != "gpu" or runner.job.same:
        return None
    folder = settings.folder / "cases" / runner.job.target.name
    right = [r.case for r in results if r.verdict is Verdict.AGREE][:_TIMED]
    requests = [write_request(folder, case) for case in right]
    return timing.compare(timing.measure(*runner.pair(), requests))


def _rounds(
    settings: Settings,
    target: Target,
    first: Sequence[Case],
    draw: Draw,
    until: float | None,
) -> Iterator[list[Case]]:
    """The corpus's cases, then drawn ones that are not among them."""
    seen = {case.id: case for case in first}
    yield list(seen.values())
    turn = 0
    while True:
        count = settings.examples or _ROUND
        drawn = draw(target.name, count, (settings.seed + turn) % 2**32)
        yield [case for case in drawn if case.id not in seen]
        seen.update((case.id, case) for case in drawn)
        turn += 1
        if settings.examples or until is None or time.monotonic() > until:
            return


def _reported(
    settings: Settings,
    finding: Finding,
    runner: Runner,
    entries: Sequence[corpus.Entry],
    sources: tuple[Source, Source],
) -> dict[str, Any]:
    """A finding as report data: shrunk where asked for, with its picture and what the corpus
    says of it."""
    if settings.shrink and finding.follows is None and finding.direction is not Direction.BOTH:
        finding = minimise_finding(finding, runner, lanes=settings.lanes)
    outcomes, expected = runner.observe(finding.case)
    said = data.finding(finding, _reproduce(settings, finding, sources), runner.job.target.axes)
    said["errors"] = pictures.errors(finding.defect.aspect, *outcomes, expected)
    said |= finding.extra
    known = corpus.find(entries, finding.case.target, finding.defect.signature)
    expectation = corpus.expectation(known, date.today()) if known else None
    said["known"] = None
    if known is not None and expectation is not None:
        said["known"] = {"entry": known.name, "red": expectation.red, "text": expectation.text}
    return said


def _reproduce(settings: Settings, finding: Finding, sources: tuple[Source, Source]) -> str:
    """The command that shows the finding again, on the revision that is wrong."""
    wrong = sources[0 if finding.direction is Direction.FIXED else 1]
    path = settings.folder / "findings" / f"{finding.id}.yaml"
    words = ["diffuzz", "replay", str(path), "--revision", wrong.identity.revision]
    if settings.repo:
        words += ["--repo", settings.repo]
    for folder in settings.target_folders:
        words += ["--targets", folder]
    return shlex.join(words)
