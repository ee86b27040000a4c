"""The fuzz loop: cases onto both revisions' slices, outcomes to the oracles, findings out.

A lane is one pair of workers. Cases are dealt to lanes in order and results are folded in case
order, so a report does not depend on how many lanes there were or which was faster.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffuzz import oracles
from diffuzz.arch import Arch
from diffuzz.case import Case
from diffuzz.executors.native_ops import NativeOps
from diffuzz.executors.pool import Worker, write_request
from diffuzz.executors.worker import Setup
from diffuzz.finding import Defect, Direction, Judged, Verdict
from diffuzz.native.closure import Closure
from diffuzz.outcome import Outcome
from diffuzz.slicing import Slice
from diffuzz.target import Expectation, Target

MEMORY_LIMIT = 16 << 30


@dataclass(frozen=True)
class Side:
    """One revision of a target, ready to run: its slice and what provides its native ops, with
    their closure for builds of another kind."""

    slice: Slice
    native: NativeOps
    closure: Closure | None = None

    @property
    def hash(self) -> str:
        return self.slice.hash


@dataclass(frozen=True)
class Job:
    """One target on one arch: what is compared and how.

    Equal hashes of ``baseline`` and ``candidate`` mean one run serves both. ``facts`` is what
    each revision says about who reaches the kernel.
    """

    target: Target
    arch: Arch
    executor: str
    baseline: Side
    candidate: Side
    facts: tuple[Mapping[str, Any], Mapping[str, Any]]
    target_folders: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return self.baseline.hash == self.candidate.hash


@dataclass(frozen=True)
class CaseResult:
    """One case judged on both revisions."""

    case: Case
    baseline: Judged
    candidate: Judged
    verdict: Verdict
    defects: tuple[tuple[Defect, Direction], ...]


class Runner:
    """Workers for one job, ``lanes`` pairs of them, started when first used."""

    def __init__(self, job: Job, folder: Path, *, lanes: int, time_limit: float) -> None:
        self.job = job
        self.folder = folder
        self._stack = ExitStack()
        self._scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        sides = [("baseline", job.baseline)] + ([] if job.same else [("candidate", job.candidate)])
        self._lanes = [
            [self._worker(name, side, lane, time_limit) for name, side in sides]
            for lane in range(lanes)
        ]
        self._free = list(self._lanes)
        self._lock = threading.Semaphore(lanes)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _worker(self, name: str, side: Side, lane: int, time_limit: float) -> Worker:
        return self._stack.enter_context(Worker(self.setup(name, side, lane), time_limit))

    def setup(self, name: str, side: Side, lane: int = 0) -> Setup:
        """What a worker of one side is started for; the slice is written where it says."""
        directory = self._scratch / side.hash[:16]
        if not directory.exists():
            side.slice.write(directory)
        job = self.job
        logs = self.folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return Setup(
            slice_dir=str(directory),
            target=job.target.name,
            target_folders=job.target_folders,
            arch=job.arch.name,
            executor=job.executor,
            native=side.native.to_dict(),
            log=str(logs / f"{job.target.name}-{job.arch.name}-{name}-{lane}.log"),
            memory_limit=MEMORY_LIMIT if job.executor == "cpu" else 0,
            lane=lane,
        )

    def pair(self) -> tuple[Worker, Worker]:
        """Baseline's and candidate's worker of the first lane, for timing them in turns; nobody
        else may be running."""
        return self._lanes[0][0], self._lanes[0][-1]

    def run(self, case: Case) -> CaseResult:
        """Run ``case`` on both sides and judge it. Safe to call from ``lanes`` threads at once."""
        outcomes, expected = self.observe(case)
        found = oracles.assess(*outcomes, expected)
        return CaseResult(
            case, found.baseline, found.candidate, found.verdict, tuple(found.differences)
        )

    def observe(self, case: Case) -> tuple[tuple[Outcome, Outcome], Mapping[str, Expectation]]:
        """What ``case`` does on baseline and candidate, and what is right."""
        with self._lock:
            lane = self._free.pop()
            try:
                return self._observe_on(lane, case)
            finally:
                self._free.append(lane)

    def _observe_on(
        self, lane: Sequence[Worker], case: Case
    ) -> tuple[tuple[Outcome, Outcome], Mapping[str, Expectation]]:
        request = write_request(self.folder / "cases" / case.target, case)
        for worker in lane:
            worker.submit(request)
        # The truth is worked out while the workers run.
        target, arch = self.job.target, self.job.arch
        expected = target.expected(case, arch, target.inputs(case, arch))
        outcomes = [worker.result(request) for worker in lane]
        return (outcomes[0], outcomes[-1]), expected


def run_cases(
    runner: Runner, cases: Sequence[Case], lanes: int, deadline: float | None = None
) -> Iterator[CaseResult]:
    """Results in case order. Cases not begun by ``deadline`` (``time.monotonic``) are left out."""

    def one(case: Case) -> CaseResult | None:
        if deadline is not None and time.monotonic() > deadline:
            return None
        return runner.run(case)

    with ThreadPoolExecutor(max_workers=lanes) as threads:
        for result in threads.map(one, cases):
            if result is not None:
                yield result
