"""``diffuzz reproducer``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import DiffuzzError, NothingTested, UsageError

if TYPE_CHECKING:
    from diffuzz.casefile import CaseFile
    from diffuzz.reproducer import Subject


@click.command("reproducer")
@click.argument("file", metavar="FINDING.yaml")
@click.option("--revision", required=True, metavar="REV", help="Revision whose code it carries.")
@click.option("--out", metavar="FILE.py", help="[default: FINDING.py]")
@options.repo
@options.arch
@options.executor
@options.time_limit
@options.target_folders
def command(
    file: str,
    revision: str,
    out: str | None,
    repo: str | None,
    archs: tuple[str, ...],
    executor: str,
    case_timeout: float,
    target_folders: tuple[str, ...],
) -> int:
    """Write one Python file that shows a finding with torch and triton alone.

    It carries the code of the revision, the inputs and the right answers, and prints expected
    against actual. It takes a GPU where there is one of the finding's kind, else the CPU. It exits
    0 when the revision is right, 1 when it is wrong, 125 when it cannot tell.
    The file is run here on the CPU first, on the finding's revisions too; where its word is not
    diffuzz's, it refuses to run without a GPU.
    """
    from diffuzz.casefile import read_case_file
    from diffuzz.reproducer import build

    read = read_case_file(Path(file))
    target = discovery.load(read.target, target_folders)
    case = read.case(target.axes)
    excluded = target.allowed(case)
    if excluded is not None:
        raise UsageError(f"{read.path}: the contract excludes this case: {excluded}")
    if len(archs) > 1:
        raise UsageError("a reproducer is for one --arch")
    arch = archs[0] if archs else read.arch or target.archs[0]
    subject, *others = _subjects(read, revision, repo, arch, executor, case_timeout, target_folders)
    made = build(read, case, subject, others)
    path = Path(out) if out else Path(file).with_suffix(".py")
    try:
        path.write_text(made.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    for line in made.checks:
        click.echo(f"run here on the CPU: {line}")
    if made.cpu is not None:
        click.echo(f"it needs a GPU like {arch}: {made.cpu}")
    click.echo(f"written to {path} (it holds vLLM's code of {revision})")
    return 0


def _subjects(
    read: CaseFile,
    revision: str,
    repo: str | None,
    arch: str,
    executor: str,
    time_limit: float,
    target_folders: tuple[str, ...],
) -> list[Subject]:
    """The revision, then those of the finding's own whose slices are others."""
    from diffuzz.devices import choose_executor
    from diffuzz.planning import plan
    from diffuzz.reproducer.build import judge
    from diffuzz.sources.revision import open_revision

    chosen = choose_executor(executor)
    found: list[Subject] = []
    for name in dict.fromkeys((revision, read.baseline, read.candidate)):
        if name is None:
            continue
        try:
            source = open_revision(name, repo, progress=streams.download_progress())
            planned = plan(source, source, (read.target,), (arch,), chosen, target_folders)
            if planned.untested:
                raise NothingTested(f"{read.target} on {arch}: {planned.untested[0].reason}")
        except DiffuzzError as error:
            if name == revision:
                raise
            click.echo(f"not checked on {name}: {error}", err=True)
            continue
        (job,) = planned.jobs
        if job.candidate.hash not in {one.job.candidate.hash for one in found}:
            found.append(judge(name, job, read.case(job.target.axes), time_limit))
    return found
