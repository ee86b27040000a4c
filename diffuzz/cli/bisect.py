"""``diffuzz bisect``."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import UsageError

if TYPE_CHECKING:
    from diffuzz.arch import Arch
    from diffuzz.bisect.finding import Bisected
    from diffuzz.bisect.question import Question
    from diffuzz.bisect.row import Row
    from diffuzz.casefile import CaseFile
    from diffuzz.target import Target
    from diffuzz.verdicts import Judge

EXIT_SAME = 1
EXIT_UNKNOWN = 3


@dataclass(frozen=True)
class Asked:
    """The user's choices of one bisect."""

    good: str
    bad: str
    repo: str | None
    executor: str
    time_limit: float
    target_folders: tuple[str, ...]
    fresh: bool
    blame: bool
    all_parents: bool


@click.command("bisect")
@click.argument("file", metavar="FINDING.yaml")
@click.option("--good", required=True, metavar="REV", help="A revision without the behaviour.")
@click.option("--bad", required=True, metavar="REV", help="A revision with it; may be the older.")
@options.repo
@options.arch
@options.executor
@click.option("--all-parents", is_flag=True, help="Go on inside a merge that is the culprit.")
@click.option("--json", "json_file", metavar="FILE", help="Write the result as JSON; - for stdout.")
@click.option("--fresh", is_flag=True, help="Run everything again, whatever is remembered.")
@click.option("--blame/--no-blame", default=True, help="Name the definitions in the culprit.")
@options.time_limit
@options.target_folders
def command(
    file: str,
    good: str,
    bad: str,
    repo: str | None,
    archs: tuple[str, ...],
    executor: str,
    all_parents: bool,
    json_file: str | None,
    fresh: bool,
    blame: bool,
    case_timeout: float,
    target_folders: tuple[str, ...],
) -> int:
    """Find the commit that brought a finding's behaviour, or the one that fixed it.

    --good and --bad may be in either order of time: where bad is the older, the answer is the
    commit that fixed it. Two releases (pypi:X) that no repository has tags of give the two
    releases the change lies between.

    Exit code: 0 a culprit or a range was found, 1 the behaviour does not differ between the ends,
    2 bad usage or input, 3 nothing could be told.
    """
    from diffuzz.arch import get_arch
    from diffuzz.bisect.question import Question
    from diffuzz.casefile import read_case_file
    from diffuzz.report.documents import check_writable

    read = read_case_file(Path(file))
    if read.signature is None:
        raise UsageError(f"{file}: names no signature, so what to look for is not known")
    if len(archs) > 1:
        raise UsageError("a finding is bisected on one --arch")
    target = discovery.load(read.target, target_folders)
    arch = get_arch(archs[0] if archs else read.arch or target.archs[0])
    folders = target_folders
    asked = Asked(good, bad, repo, executor, case_timeout, folders, fresh, blame, all_parents)
    question = Question(_case(read, target), read.signature)
    check_writable("--json", None if json_file == "-" else json_file)
    data = _bisect(asked, target, arch, question)
    _emit(data, json_file)
    return _exit_code(data)


def _case(read: CaseFile, target: Target) -> Any:
    case = read.case(target.axes)
    excluded = target.allowed(case)
    if excluded is not None:
        raise UsageError(f"{read.path}: the contract excludes this case: {excluded}")
    return case


def _bisect(asked: Asked, target: Target, arch: Arch, question: Question) -> dict[str, Any]:
    from diffuzz.bisect.data import bisected
    from diffuzz.bisect.row import open_row
    from diffuzz.devices import choose_executor
    from diffuzz.history import Cutter
    from diffuzz.verdicts import Judge

    if not Cutter(target, arch).remembers:  # then hardly a verdict is, and workers are needed
        from diffuzz.executors.template import prestart

        prestart()
    started = time.monotonic()
    progress = streams.download_progress()
    row = open_row(asked.good, asked.bad, target, arch, asked.repo, progress=progress)
    walked = time.monotonic()
    with Judge(
        target,
        arch,
        choose_executor(asked.executor),
        asked.target_folders,
        time_limit=asked.time_limit,
        remember=not asked.fresh,
    ) as judge:
        found, notes = _search(asked, row, question, judge)
        data = bisected(found)
        data["notes"] += notes
        if asked.blame:
            from diffuzz.bisect.blame import blame

            data["blame"] = blame(found, judge)
        data["runs"] = {"run": judge.runs, "remembered": judge.recalled}
    data["seconds"] = {
        "history": round(walked - started, 3),
        "total": round(time.monotonic() - started, 3),
    }
    return data


def _search(asked: Asked, row: Row, question: Question, judge: Judge) -> tuple[Bisected, list[str]]:
    """Search ``row``, and with --all-parents inside the merges that turn out to be culprits."""
    from diffuzz.bisect.finding import search_row
    from diffuzz.bisect.merges import inside

    found = search_row(row, question, judge, fresh=asked.fresh)
    notes: list[str] = []
    while asked.all_parents:
        deeper = inside(found, judge, fresh=asked.fresh)
        if deeper is None:
            break
        found, note = deeper
        notes.append(note)
    return found, notes


def _emit(data: dict[str, Any], json_file: str | None) -> None:
    from diffuzz.report.bisect_text import lines

    text = json.dumps(data, indent=2) + "\n"
    if json_file == "-":
        sys.stdout.write(text)
        return
    if json_file is not None:
        Path(json_file).write_text(text)
    for line in lines(data):
        click.echo(line)


def _exit_code(data: dict[str, Any]) -> int:
    if data["culprit"] is not None or data["range"] is not None:
        return 0
    return {"same": EXIT_SAME, "unknown": EXIT_UNKNOWN}.get(data["outcome"], 2)
