"""``diffuzz run``: the main command."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import UsageError

_DEFAULT_EXAMPLES = 100
# With only a time budget the number of cases is open; they are drawn in rounds of this many.
_ROUND = 100
EXIT_FINDINGS = 1
EXIT_NOTHING = 3


@dataclass(frozen=True)
class Settings:
    """The user's choices of one run."""

    examples: int | None
    budget: float | None
    seed: int
    lanes: int
    time_limit: float
    folder: Path
    repo: str | None


@click.command("run")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--baseline", metavar="REV", help="Revision taken as right. Default: see below.")
@click.option("--candidate", metavar="REV", help="Revision under suspicion. Default: see below.")
@options.repo
@options.arch
@options.executor
@click.option("--examples", type=click.IntRange(1), help="Cases a target and arch. [default: 100]")
@click.option("--budget", type=options.Duration(), help="Stop drawing cases after this time.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(1), help="Pairs of workers. [default: half the cores]")
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "any", "never"]),
    default="regression",
    show_default=True,
    help="Findings that make the exit code 1.",
)
@click.option("--out", metavar="DIR", help="Run folder. [default: .diffuzz/runs/<time>]")
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON; - for stdout.")
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
    fail_on: str,
    out: str | None,
    json_file: str | None,
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
    settings = Settings(
        examples=examples or (None if budget else _DEFAULT_EXAMPLES),
        budget=budget,
        seed=seed,
        lanes=jobs or max(1, (os.cpu_count() or 2) // 2),
        time_limit=case_timeout,
        folder=_folder(out),
        repo=repo,
    )
    _check_writable(json_file)
    report = _run(settings, names, baseline, candidate, archs, executor, target_folders)
    _emit(report, settings.folder, json_file)
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


def _check_writable(json_file: str | None) -> None:
    """Fail before the run, not after it."""
    if json_file in (None, "-"):
        return
    parent = Path(str(json_file)).resolve().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK) or Path(str(json_file)).is_dir():
        raise UsageError(f"--json {json_file}: cannot be written there")


def _run(
    settings: Settings,
    names: tuple[str, ...],
    baseline: str | None,
    candidate: str | None,
    archs: tuple[str, ...],
    executor: str,
    target_folders: tuple[str, ...],
) -> dict[str, Any]:
    from diffuzz.devices import choose_executor, device_name
    from diffuzz.planning import plan
    from diffuzz.report import data

    before, after = _open(baseline, candidate, settings.repo)
    chosen = choose_executor(executor)
    planned = plan(before, after, names, archs, chosen, target_folders)
    results = _fuzz(settings, planned.jobs)
    targets: list[dict[str, Any]] = []
    for result in results:
        found = [
            data.finding(f, _reproduce(settings, f, before, after), result.job.target.axes)
            for f in result.findings
        ]
        targets.append(data.target(result, found))
    for item in planned.untested:
        targets.append(
            data.untested_target(
                item.target, item.arch, item.executor, dict(item.slices), item.reason
            )
        )
    return {
        "schema": data.SCHEMA,
        "environment": data.environment(device_name(chosen)),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": settings.seed,
        "baseline": data.revision(before.identity),
        "candidate": data.revision(after.identity),
        "targets": targets,
        "findings": [finding for item in targets for finding in item["findings"]],
    }


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


def _fuzz(settings: Settings, jobs: list[Any]) -> list[Any]:
    import torch

    from diffuzz.campaign import Fold, Runner, run_cases
    from diffuzz.generate import draw_cases

    # The lanes are the parallelism: tensors are small, and threads of torch's own would only
    # take turns with the workers.
    torch.set_num_threads(1)
    started = time.monotonic()
    deadline = None if settings.budget is None else started + settings.budget
    results = []
    with streams.case_progress((settings.examples or 0) * len(jobs)) as count:
        for index, job in enumerate(jobs):
            # What is left of the budget is shared by the jobs that are left.
            until = deadline and (
                time.monotonic() + (deadline - time.monotonic()) / (len(jobs) - index)
            )
            fold, begun = Fold(job), time.monotonic()
            with Runner(
                job, settings.folder, lanes=settings.lanes, time_limit=settings.time_limit
            ) as runner:
                for turn in range(1 if settings.examples else 1_000_000):
                    cases = draw_cases(
                        job.target,
                        count=settings.examples or _ROUND,
                        seed=(settings.seed + turn) % 2**32,
                    )
                    for result in run_cases(runner, cases, settings.lanes, until):
                        fold.add(result)
                        count(f"{job.target.name} {job.arch.name}")
                    if until is not None and time.monotonic() > until:
                        break
            done = fold.finish()
            done.seconds = time.monotonic() - begun
            results.append(done)
    return results


def _reproduce(settings: Settings, finding: Any, before: Any, after: Any) -> str:
    """The command that shows the finding again, on the revision that is wrong."""
    from diffuzz.finding import Direction

    wrong = before if finding.direction is Direction.FIXED else after
    path = settings.folder / "findings" / f"{finding.id}.yaml"
    words = ["diffuzz", "replay", str(path), "--revision", wrong.identity.revision]
    if settings.repo:
        words += ["--repo", settings.repo]
    return shlex.join(words)


def _emit(report: dict[str, Any], folder: Path, json_file: str | None) -> None:
    from diffuzz.report.files import write_finding
    from diffuzz.report.terminal import render

    text = json.dumps(report, indent=2) + "\n"
    (folder / "report.json").write_text(text)
    for finding in report["findings"]:
        path = folder / "findings" / f"{finding['id']}.yaml"
        write_finding(
            path, finding, report["baseline"]["revision"], report["candidate"]["revision"]
        )
    if json_file == "-":
        sys.stdout.write(text)
        return
    if json_file is not None:
        Path(json_file).write_text(text)
    render(report, streams.output())


def _exit_code(report: dict[str, Any], fail_on: str) -> int:
    judged = sum(
        item["verdicts"]["agree"] + item["verdicts"]["differ"] for item in report["targets"]
    )
    directions = {finding["direction"] for finding in report["findings"]}
    if fail_on == "any" and directions:
        return EXIT_FINDINGS
    if fail_on == "regression" and "regression" in directions:
        return EXIT_FINDINGS
    return 0 if judged else EXIT_NOTHING
