"""``diffuzz nightly``."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import UsageError

if TYPE_CHECKING:
    from diffuzz.nightly.machinery import Device
    from diffuzz.nightly.state import StateFolder
    from diffuzz.nightly.units import Shard

EXIT_NEW = 1
EXIT_NOTHING = 3
_NIGHT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([.-][0-9A-Za-z.-]{1,32})?")


@click.command("nightly")
@click.argument("shards", nargs=-1, metavar="[DIR]...")
@options.repo
@click.option("--state", required=True, metavar="DIR", help="What is kept between nights.")
@click.option("--merge", is_flag=True, help="Bring the states in DIRs into --state; run nothing.")
@click.option("--budget", type=options.Duration(), default="60m", show_default=True)
@click.option("--shard", default="1/1", show_default=True, metavar="I/N", help="Part of the work.")
@click.option("--target", "targets", multiple=True, metavar="TARGET", help="[default: all]")
@options.arch
@options.executor
@click.option("--revision", metavar="REV", help="Tested revision. [default: the main branch]")
@click.option("--good", metavar="REV", help="Taken as good where the state knows no revision.")
@click.option("--night", metavar="NAME", help="Name of the night. [default: the UTC date]")
@click.option(
    "--examples",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Cases drawn for a target whose code changed.",
)
@click.option(
    "--explore",
    type=click.IntRange(0),
    help="Cases a target for holes in the case space and at random. [default: all the budget]",
)
@click.option("--devices", metavar="0,1,...", help="GPUs to choose from; each is tried first.")
@click.option("--jobs", type=click.IntRange(1), help="Pairs of workers. [default: half the cores]")
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "never"]),
    default="regression",
    show_default=True,
    help="regression: exit code 1 for findings that are new this night.",
)
@click.option(
    "--corpus", "corpora", multiple=True, metavar="DIR", help="Cases to run first; repeatable."
)
@click.option("--json", "json_file", metavar="FILE", help="Write the night as JSON; - for stdout.")
@click.option("--sarif", metavar="FILE", help="Write open findings as SARIF 2.1.0.")
@click.option("--markdown", metavar="FILE", help="Write the report, as for a job summary.")
@options.time_limit
@options.target_folders
def command(**given: Any) -> int:
    """Test the newest revision of a branch, as every night.

    Known findings are looked at again first; then the targets whose code changed since it was
    judged are compared with the last revision judged good; what is left of the budget goes to
    holes in the case space and random cases. New findings are confirmed in fresh processes,
    shrunk, bisected and drafted as issues in DIR/issues. The account says what was not run.

    Exit code: 0 nothing new, 1 new findings, 2 bad usage or input, 3 nothing could
    be tested (or diffuzz itself failed).
    """
    from diffuzz.report.documents import check_writable

    for option in ("json_file", "sarif", "markdown"):
        check_writable(f"--{option.partition('_')[0]}", given[option])
    shard = _shard(given["shard"])
    if given["merge"]:
        return _merge(given)
    if given["shards"]:
        raise UsageError("folders are named only with --merge")
    if given["repo"] is None:
        raise UsageError("nightly needs --repo URL or --repo DIR")
    return _night(given, shard)


def _shard(text: str) -> Shard:
    from diffuzz.nightly.units import Shard

    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard {text}: not I/N with I from 1 to N")
    return Shard(int(found[1]), int(found[2]))


def _name(given: str | None) -> str:
    name = given or datetime.now(timezone.utc).date().isoformat()
    if _NIGHT.fullmatch(name) is None:
        raise UsageError(f"--night {name}: not a date, such as 2026-08-01 or 2026-08-01.2")
    return name


def _night(given: dict[str, Any], shard: Shard) -> int:
    name = _name(given["night"])
    for target in given["targets"]:
        discovery.load(target, given["target_folders"])
    device, failed = _device(given, shard)

    from diffuzz.corpus import default_folders
    from diffuzz.devices import choose_executor
    from diffuzz.executors.template import prestart
    from diffuzz.nightly.morning import write
    from diffuzz.nightly.night import run_night
    from diffuzz.nightly.state import StateFolder
    from diffuzz.nightly.tonight import Settings

    broken = bool(failed) and device is None
    executor = "gpu" if broken else choose_executor(given["executor"])
    settings = Settings(
        repo=given["repo"],
        state=Path(given["state"]),
        night=name,
        budget=given["budget"],
        targets=given["targets"],
        archs=given["archs"],
        executor=executor,
        lanes=given["jobs"] or max(1, (os.cpu_count() or 2) // 2),
        time_limit=given["case_timeout"],
        corpora=tuple(map(Path, given["corpora"])) or tuple(default_folders()),
        examples=given["examples"],
        explore=given["explore"],
        shard=shard,
        revision=given["revision"],
        good=given["good"],
        target_folders=given["target_folders"],
        device=device,
        failed=tuple(failed),
    )
    prestart()
    with streams.case_progress(0) as progress:
        entry = run_night(settings, progress)
    state = StateFolder.reopen(settings.state)
    write(state, name, file=shard.count == 1)
    code = _emit(given, state, name)
    tested = any(item["done"] for item in entry["account"])
    return code or (0 if tested and not entry["failed"] else EXIT_NOTHING)


def _device(given: dict[str, Any], shard: Shard) -> tuple[Device | None, list[Device]]:
    """The device of this shard, made the only one that is seen."""
    from diffuzz.nightly import machinery

    if given["devices"] is None or given["executor"] == "cpu":
        return None, []
    numbers = machinery.parse_devices(given["devices"])
    device, failed = machinery.choose_device(numbers, shard.index)
    for item in failed:
        click.echo(f"{item} is quarantined for the night: {item.problem}", err=True)
    if device is not None:
        machinery.show_only(device.number)
    return device, failed


def _merge(given: dict[str, Any]) -> int:
    from diffuzz import corpus
    from diffuzz.nightly.morning import newest, write
    from diffuzz.nightly.state import StateFolder

    state = StateFolder.open(Path(given["state"]))
    for name in given["shards"]:
        problem = state.merge(Path(name))
        if problem is not None:
            click.echo(problem, err=True)
        elif (Path(name) / "corpus").is_dir():
            corpus.merge(state.folder / "corpus", Path(name) / "corpus")
    state.save()
    for note in state.notes:
        click.echo(note, err=True)
    night = given["night"] or newest(state.data)
    if night is None or night not in state.data["nights"]:
        raise UsageError(f"{given['state']}: there is no night in it to report")
    write(state, night, file=True)
    return _emit(given, state, night)


def _emit(given: dict[str, Any], state: StateFolder, night: str) -> int:
    from diffuzz.nightly import morning
    from diffuzz.nightly.status import status
    from diffuzz.report import documents
    from diffuzz.report.sarif import sarif

    data = state.data
    fresh = morning.news(data, night)
    if given["markdown"] is not None:
        documents.write(given["markdown"], morning.markdown(data, night))
    if given["sarif"] is not None:
        documents.write(given["sarif"], sarif(morning.report(data, night)))
    if given["json_file"] is not None:
        said = {
            "schema": 1,
            "night": night,
            "shards": data["nights"][night],
            "new": fresh,
            "fixed": morning.fixed(data, night),
            "drafts": morning.drafted(data),
            "findings": {
                key: {
                    "status": status(f).text,
                    "since": status(f).since,
                    "returned": status(f).returned,
                    "unseen": status(f).unseen,
                    "commit": status(f).culprit,
                    "answer": status(f).answer,
                }
                for key, f in data["findings"].items()
            },
        }
        documents.write(given["json_file"], json.dumps(said, indent=2) + "\n")
    if given["json_file"] != "-" and given["markdown"] != "-":
        for line in morning.lines(data, night):
            click.echo(line)
    return EXIT_NEW if fresh and given["fail_on"] == "regression" else 0
