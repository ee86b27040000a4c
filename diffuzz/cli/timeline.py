"""``diffuzz timeline``."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import UsageError

if TYPE_CHECKING:
    from diffuzz.arch import Arch
    from diffuzz.case import Case
    from diffuzz.history import History
    from diffuzz.sources.repository import Repository
    from diffuzz.target import Target

_DRAWN = 6
EXIT_NOTHING = 3


@dataclass(frozen=True)
class Asked:
    """The user's choices of one timeline."""

    since: str | None
    until: str | None
    repo: str | None
    executor: str
    all_parents: bool
    time_limit: float
    target_folders: tuple[str, ...]


@click.command("timeline")
@click.argument("name", metavar="TARGET")
@click.option("--case", "case_file", metavar="FILE", help="Only this case or finding.")
@click.option("--from", "since", metavar="REV", help="[default: where the code first exists]")
@click.option("--to", "until", metavar="REV", help="[default: the main branch]")
@options.repo
@options.arch
@options.executor
@click.option("--all-parents", is_flag=True, help="The full graph, not first parents alone.")
@click.option("--json", "json_file", metavar="FILE", help="Write the result as JSON; - for stdout.")
@click.option("--html", "html_file", metavar="FILE", help="Write a picture of it.")
@options.time_limit
@options.target_folders
def command(
    name: str,
    case_file: str | None,
    since: str | None,
    until: str | None,
    repo: str | None,
    archs: tuple[str, ...],
    executor: str,
    all_parents: bool,
    json_file: str | None,
    html_file: str | None,
    case_timeout: float,
    target_folders: tuple[str, ...],
) -> int:
    """Run cases on every variant of TARGET's code and print each change of verdict.

    A variant is a stretch of history in which the code is the same, so this covers every commit.
    Without --case the target's corpus is used; where it has none, a few drawn cases.

    Exit code: 0 something could be judged, 2 bad usage or input, 3 nothing could be told.
    """
    from diffuzz.arch import get_arch
    from diffuzz.report.documents import check_writable

    if len(archs) > 1:
        raise UsageError("a timeline is of one --arch")
    target = discovery.load(name, target_folders)
    named, wanted_arch = _cases(target, case_file)
    arch = get_arch(archs[0] if archs else wanted_arch or target.archs[0])
    check_writable("--json", None if json_file == "-" else json_file)
    check_writable("--html", html_file)
    asked = Asked(since, until, repo, executor, all_parents, case_timeout, target_folders)
    data = _timeline(asked, target, arch, named)
    _emit(data, json_file, html_file)
    judged = [cell["verdict"] for v in data["variants"] for cell in v["verdicts"]]
    return 0 if set(judged) - {"unknown"} else EXIT_NOTHING


def _cases(target: Target, case_file: str | None) -> tuple[list[tuple[str, Case]], str | None]:
    """Cases with names for people, and the arch a single file asks for."""
    from diffuzz import corpus
    from diffuzz.casefile import read_case_file

    if case_file is not None:
        read = read_case_file(Path(case_file))
        if read.target != target.name:
            raise UsageError(f"{case_file}: a case of {read.target}, not of {target.name}")
        case = read.case(target.axes)
        excluded = target.allowed(case)
        if excluded is not None:
            raise UsageError(f"{case_file}: the contract excludes this case: {excluded}")
        return [(Path(case_file).stem, case)], read.arch
    entries = [e for folder in corpus.default_folders() for e in corpus.load(folder, target)]
    named = {e.case(target.axes).id: (e.name.removesuffix(".yaml"), e) for e in entries}
    if named:
        return [(name, e.case(target.axes)) for name, e in named.values()], None
    from diffuzz.generate import draw_cases

    drawn = draw_cases(target, count=_DRAWN, seed=0)
    return [(f"drawn-{case.id}", case) for case in drawn], None


def _timeline(
    asked: Asked, target: Target, arch: Arch, named: list[tuple[str, Case]]
) -> dict[str, Any]:
    from diffuzz.devices import choose_executor
    from diffuzz.history import Cutter
    from diffuzz.timeline import SCHEMA, data, timeline
    from diffuzz.verdicts import Judge

    if not Cutter(target, arch).remembers:  # then hardly a verdict is, and workers are needed
        from diffuzz.executors.template import prestart

        prestart()
    started = time.monotonic()
    chosen = choose_executor(asked.executor)
    since, until, made, past = _range(asked, target, arch)
    walked = time.monotonic()
    with (
        Judge(target, arch, chosen, asked.target_folders, time_limit=asked.time_limit) as judge,
        streams.case_progress(len(past.variants) * len(named)) as count,
    ):
        found = timeline(past, named, judge, lambda: count(target.name))
        runs = {"run": judge.runs, "remembered": judge.recalled}
    return {
        "schema": SCHEMA,
        "target": target.name,
        "arch": arch.name,
        "executor": chosen,
        "from": since,
        "to": until,
        "until": None if made is None else made.isoformat(),
        **data(found),
        "runs": runs,
        "seconds": {
            "history": round(walked - started, 3),
            "total": round(time.monotonic() - started, 3),
        },
    }


def _range(asked: Asked, target: Target, arch: Arch) -> tuple[str, str, datetime | None, History]:
    """The two ends, when the later was made, and what lies between: in a repository's history or
    among the revisions of a bundle."""
    if any(text and text.startswith("bundle:") for text in (asked.since, asked.until)):
        if not (asked.since and asked.until):
            raise UsageError("a timeline of a bundle needs --from and --to")
        from diffuzz.history.packed import packed_history
        from diffuzz.sources.bundle import open_bundled

        past = packed_history(asked.since, asked.until, target, arch)
        return asked.since, asked.until, open_bundled(asked.until).identity.date, past
    repository = _repository(asked.repo)
    since, until, past = _history(asked, repository, target, arch)
    return since, until, repository.commit(until).date, past


def _repository(repo: str | None) -> Repository:
    from diffuzz.sources.repository import Repository
    from diffuzz.sources.revision import vllm_clone

    if repo is not None:
        return Repository.open(repo, progress=streams.download_progress())
    around = vllm_clone(Path("."))
    if around is None:
        raise UsageError("there is no vLLM clone here to read history from; give --repo")
    return around


def _history(
    asked: Asked, repository: Repository, target: Target, arch: Arch
) -> tuple[str, str, History]:
    from diffuzz.history import code_begins, history

    until = asked.until or repository.main_branch()
    if until is None:
        raise UsageError(f"{repository} has no main branch; give --to")
    since = asked.since or code_begins(repository, until, target).sha
    if not repository.is_ancestor(since, until) and repository.is_ancestor(until, since):
        raise UsageError(f"--from {since} is newer than --to {until}")
    past = history(repository, since, until, target, arch, all_parents=asked.all_parents)
    return asked.since or since[:10], until, past


def _emit(data: dict[str, Any], json_file: str | None, html_file: str | None) -> None:
    from diffuzz.report.timeline_picture import page
    from diffuzz.report.timeline_text import lines

    text = json.dumps(data, indent=2) + "\n"
    if html_file is not None:
        Path(html_file).write_text(page(data), encoding="utf-8")
    if json_file == "-":
        sys.stdout.write(text)
        return
    if json_file is not None:
        Path(json_file).write_text(text)
    for line in lines(data):
        click.echo(line)
