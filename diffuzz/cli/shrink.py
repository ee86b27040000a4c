"""``diffuzz shrink``."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import NothingTested, UsageError

if TYPE_CHECKING:
    from diffuzz.campaign import Job
    from diffuzz.case import Case
    from diffuzz.casefile import CaseFile
    from diffuzz.minimise import Minimised


@click.command("shrink")
@click.argument("file", metavar="CASE.yaml")
@click.option("--baseline", metavar="REV", help="Instead of the finding's own baseline.")
@click.option("--candidate", metavar="REV", help="Instead of the finding's own candidate.")
@options.repo
@options.arch
@options.executor
@click.option(
    "--budget",
    type=options.Duration(),
    default="60s",
    show_default=True,
    help="Stop searching after this time.",
)
@click.option(
    "--repeats", type=click.IntRange(1), default=1, help="Runs of each case, if unsteady."
)
@click.option("--jobs", type=click.IntRange(1), help="Pairs of workers. [default: half the cores]")
@click.option("--in-place", is_flag=True, help="Replace the file. [default: FILE.min.yaml]")
@options.time_limit
@options.target_folders
def command(
    file: str,
    baseline: str | None,
    candidate: str | None,
    repo: str | None,
    archs: tuple[str, ...],
    executor: str,
    budget: float,
    repeats: int,
    jobs: int | None,
    in_place: bool,
    case_timeout: float,
    target_folders: tuple[str, ...],
) -> int:
    """Find the simplest case with a finding's signature and direction, and write it.

    Both revisions of the finding are run again. Exit code: 0 a simplest case was written, 2 bad
    usage or input (a case that does not show the finding is one), 3 nothing could be tested.
    """
    from diffuzz.casefile import read_case_file, write_case_file
    from diffuzz.minimise import summary

    read = read_case_file(Path(file))
    job = _job(read, (baseline, candidate), repo, archs, executor, target_folders)
    lanes = jobs or max(1, (os.cpu_count() or 2) // 2)
    before, found = _minimised(read, job, lanes, case_timeout, budget, repeats)
    for line in summary(before, found, job):
        click.echo(line)
    path = Path(file) if in_place else Path(file).with_suffix(".min.yaml")
    write_case_file(path, _rewritten(read, found))
    click.echo(f"written to {path}")
    return 0


def _job(
    read: CaseFile,
    named: tuple[str | None, str | None],
    repo: str | None,
    archs: tuple[str, ...],
    executor: str,
    target_folders: tuple[str, ...],
) -> Job:
    from diffuzz.devices import choose_executor
    from diffuzz.planning import plan
    from diffuzz.sources.revision import open_revision

    if read.signature is None or read.direction is None:
        raise UsageError(f"{read.path}: signature and direction say what must stay; one is missing")
    revisions = [
        given or own for given, own in zip(named, (read.baseline, read.candidate), strict=True)
    ]
    if None in revisions:
        raise UsageError(f"{read.path}: names no two revisions; give --baseline and --candidate")
    if len(archs) > 1:
        raise UsageError("a finding is shrunk on one --arch")
    target = discovery.load(read.target, target_folders)
    read.case(target.axes)
    arch = archs or ((read.arch,) if read.arch else tuple(target.archs[:1]))
    progress = streams.download_progress()
    before, after = (open_revision(str(text), repo, progress=progress) for text in revisions)
    planned = plan(before, after, (read.target,), arch, choose_executor(executor), target_folders)
    if planned.untested:
        raise NothingTested(f"{read.target} on {arch[0]}: {planned.untested[0].reason}")
    return planned.jobs[0]


def _minimised(
    read: CaseFile, job: Job, lanes: int, time_limit: float, budget: float, repeats: int
) -> tuple[Case, Minimised]:
    from diffuzz.campaign import Runner
    from diffuzz.finding import Direction
    from diffuzz.minimise import minimise

    case = read.case(job.target.axes)
    excluded = job.target.allowed(case)
    if excluded is not None:
        raise UsageError(f"{read.path}: the contract excludes this case: {excluded}")
    with (
        tempfile.TemporaryDirectory() as scratch,
        Runner(job, Path(scratch), lanes=lanes, time_limit=time_limit) as runner,
    ):
        found = minimise(
            case,
            str(read.signature),
            Direction(read.direction),
            runner,
            lanes=lanes,
            seconds=budget,
            repeats=repeats,
        )
    return case, found


def _rewritten(read: CaseFile, found: Minimised) -> CaseFile:
    """The file on the new case. What it says of the finding as a whole stays."""
    return replace(
        read, values=dict(found.case.values), seed=found.case.seed, message=found.message
    )
