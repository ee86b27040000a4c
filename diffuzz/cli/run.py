"""``diffuzz run``: the main command."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import UsageError

_DEFAULT_EXAMPLES = 50
EXIT_FINDINGS = 1
EXIT_NOTHING = 3


@click.command("run")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--baseline", metavar="REV", help="Revision taken as right. Default: see below.")
@click.option("--candidate", metavar="REV", help="Revision under suspicion. Default: see below.")
@options.repo
@options.arch
@options.executor
@click.option("--examples", type=click.IntRange(1), help="Cases a target and arch. [default: 50]")
@click.option("--budget", type=options.Duration(), help="Stop drawing cases after this time.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option(
    "--jobs", type=click.IntRange(1), help="Pairs of workers. [default: half the cores, at least 2]"
)
@click.option("--shrink", is_flag=True, help="Shrink each regression and fix to its simplest case.")
@click.option("--sanitize", is_flag=True, help="Also run native ops built with ASan and UBSan.")
@click.option(
    "--corpus",
    "corpora",
    multiple=True,
    metavar="DIR",
    help="Cases to replay first; may be repeated. [default: its own and .diffuzz/corpora]",
)
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "any", "never"]),
    default="regression",
    show_default=True,
    help="Findings that make the exit code 1.",
)
@click.option("--out", metavar="DIR", help="Run folder. [default: .diffuzz/runs/<time>]")
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON; - for stdout.")
@click.option("--junit", metavar="FILE", help="Write JUnit XML.")
@click.option("--sarif", metavar="FILE", help="Write SARIF 2.1.0, places in vLLM's source.")
@click.option("--html", metavar="FILE", help="Write one self-contained page.")
@click.option("--markdown", metavar="FILE", help="Write Markdown, as for a job summary.")
@options.time_limit
@options.target_folders
def command(
    targets: tuple[str, ...],
    baseline: str | None,
    candidate: str | None,
    repo: str | None,
    archs: tuple[str, ...],
    executor: str,
    examples: int | None,
    budget: float | None,
    seed: int,
    jobs: int | None,
    shrink: bool,
    sanitize: bool,
    corpora: tuple[str, ...],
    fail_on: str,
    out: str | None,
    json_file: str | None,
    junit: str | None,
    sarif: str | None,
    html: str | None,
    markdown: str | None,
    case_timeout: float,
    target_folders: tuple[str, ...],
) -> int:
    """Fuzz TARGETs (default: all) on two vLLM revisions and report what differs.

    A revision is a git revision of --repo, `.` or path:DIR for a working tree, pypi:0.20.0 for a
    release, or a bare version when there is no repository. Without --baseline and --candidate:
    inside a vLLM clone the merge base with its main branch against the working tree, elsewhere
    the two newest releases.

    Exit code: 0 nothing to report, 1 findings that --fail-on covers, 2 bad usage or input,
    3 nothing could be tested.
    """
    names = targets or tuple(discovery.names(target_folders))
    for name in names:
        discovery.load(name, target_folders)
    folder = _folder(out)
    documents = {"junit": junit, "sarif": sarif, "html": html, "markdown": markdown}
    _check_writable({"json": json_file, **documents})

    from diffuzz.executors.template import prestart

    prestart()  # its imports run beside ours

    from diffuzz import session
    from diffuzz.corpus import default_folders
    from diffuzz.devices import choose_executor

    settings = session.Settings(
        targets=names,
        archs=archs,
        executor=choose_executor(executor),
        examples=examples or (None if budget else _DEFAULT_EXAMPLES),
        budget=budget,
        seed=seed,
        lanes=jobs or max(2, (os.cpu_count() or 2) // 2),
        time_limit=case_timeout,
        folder=folder,
        shrink=shrink,
        sanitize=sanitize,
        repo=repo,
        target_folders=target_folders,
        corpora=tuple(map(Path, corpora)) or tuple(default_folders()),
    )
    before, after = _open(baseline, candidate, repo)
    planned = session.make_plan(settings, before, after)
    with streams.case_progress((settings.examples or 0) * len(planned.jobs)) as progress:
        report = session.run(settings, planned, before, after, progress)
    _emit(report, folder, json_file, documents, fail_on)
    return _exit_code(report, fail_on)


def _folder(out: str | None) -> Path:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    folder = Path(out) if out else Path(".diffuzz") / "runs" / stamp
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror or error}") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--out {folder}: not writable")
    return folder


def _check_writable(files: dict[str, str | None]) -> None:
    """Fail before the run, not after it."""
    from diffuzz.report.documents import check_writable

    for option, file in files.items():
        check_writable(f"--{option}", file)


def _open(baseline: str | None, candidate: str | None, repo: str | None) -> tuple[Any, Any]:
    from diffuzz.sources.revision import default_revisions, open_revision

    if baseline is None or candidate is None:
        default_baseline, default_candidate = default_revisions(repo)
        baseline, candidate = baseline or default_baseline, candidate or default_candidate
    progress = streams.download_progress()
    before = open_revision(baseline, repo, progress=progress)
    if candidate == baseline:
        return before, before
    return before, open_revision(candidate, repo, progress=progress)


def _emit(
    report: dict[str, Any],
    folder: Path,
    json_file: str | None,
    documents: dict[str, str | None],
    fail_on: str,
) -> None:
    from diffuzz.report.documents import write_all
    from diffuzz.report.files import write_finding
    from diffuzz.report.terminal import render

    text = json.dumps(report, indent=2) + "\n"
    (folder / "report.json").write_text(text)
    for finding in report["findings"]:
        path = folder / "findings" / f"{finding['id']}.yaml"
        write_finding(
            path, finding, report["baseline"]["revision"], report["candidate"]["revision"]
        )
    write_all(report, **documents, fail_on=fail_on)
    if json_file == "-":
        sys.stdout.write(text)
        return
    if json_file is not None:
        Path(json_file).write_text(text)
    if "-" not in documents.values():
        render(report, streams.output())


def _exit_code(report: dict[str, Any], fail_on: str) -> int:
    judged = sum(
        item["verdicts"]["agree"] + item["verdicts"]["differ"] for item in report["targets"]
    )
    # What the corpus knows and has not expired is shown, but does not go red.
    red = [f for f in report["findings"] if f["known"] is None or f["known"]["red"]]
    directions = {finding["direction"] for finding in red}
    if fail_on == "any" and directions:
        return EXIT_FINDINGS
    if fail_on == "regression" and "regression" in directions:
        return EXIT_FINDINGS
    return 0 if judged else EXIT_NOTHING
