"""``diffuzz replay``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import UsageError

EXIT_CODES = {"right": 0, "wrong": 1, "cannot tell": 125}


@click.command("replay")
@click.argument("files", nargs=-1, required=True, metavar="CASE.yaml...")
@click.option("--revision", required=True, metavar="REV", help="Revision to run the cases on.")
@options.repo
@options.arch
@options.executor
@options.time_limit
@options.target_folders
def command(
    files: tuple[str, ...],
    revision: str,
    repo: str | None,
    archs: tuple[str, ...],
    executor: str,
    case_timeout: float,
    target_folders: tuple[str, ...],
) -> int:
    """Run saved cases or findings on one revision.

    Exit code: 0 every case is right, 1 at least one is wrong, 125 cannot tell (so that
    `git bisect run` skips the revision), 2 bad usage or input. Without --arch a finding runs on
    the arch it was found on.
    """
    from diffuzz.devices import choose_executor
    from diffuzz.report.files import read_case_file
    from diffuzz.sources.revision import open_revision

    cases = [read_case_file(Path(name)) for name in files]
    for case in cases:
        case.case(discovery.load(case.target, target_folders).axes)
    source = open_revision(revision, repo, progress=streams.download_progress())
    chosen = choose_executor(executor)
    words = []
    for case in cases:
        wanted = archs or ((case.arch,) if case.arch else ())
        for line, word in _replay(case, source, wanted, chosen, case_timeout, target_folders):
            click.echo(line)
            words.append(word)
    if "wrong" in words:
        return EXIT_CODES["wrong"]
    return EXIT_CODES["cannot tell" if "cannot tell" in words else "right"]


def _replay(
    case_file: Any,
    source: Any,
    archs: tuple[str, ...],
    executor: str,
    time_limit: float,
    target_folders: tuple[str, ...],
) -> list[tuple[str, str]]:
    """One line and one word for each arch."""
    from diffuzz.campaign import Runner
    from diffuzz.planning import plan

    planned = plan(source, source, (case_file.target,), archs, executor, target_folders)
    found = [
        (f"{case_file.path} on {item.arch}: cannot tell: {item.reason}", "cannot tell")
        for item in planned.untested
    ]
    for job in planned.jobs:
        case = case_file.case(job.target.axes)
        excluded = job.target.allowed(case)
        if excluded is not None:
            raise UsageError(f"{case_file.path}: the contract excludes this case: {excluded}")
        with (
            tempfile.TemporaryDirectory() as scratch,
            Runner(job, Path(scratch), lanes=1, time_limit=time_limit) as runner,
        ):
            result = runner.run(case)
        found.append(_line(case_file, job.arch.name, result))
    return found


def _line(case_file: Any, arch: str, result: Any) -> tuple[str, str]:
    from diffuzz.corpus import stored_signature
    from diffuzz.minimise import folded

    where = f"{case_file.path} on {arch}"
    judged = result.candidate
    if judged.unknown is not None:
        return f"{where}: cannot tell: {judged.unknown}", "cannot tell"
    if not judged.defects:
        return f"{where}: right", "right"
    lines = [f"{where}: wrong"]
    own = case_file.signature and stored_signature(folded(case_file.signature))
    for defect in judged.defects:
        same = stored_signature(folded(defect.signature)) == own
        at = f" at {defect.location}" if defect.location else ""
        lines.append(
            f"  {defect.kind.value}: {defect.message}{at}"
            + (" (the finding's own signature)" if same else "")
        )
    return "\n".join(lines), "wrong"
