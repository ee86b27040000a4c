"""``diffuzz corpus``: list, add, prune, merge."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from diffuzz import discovery
from diffuzz.cli import options
from diffuzz.errors import UsageError

if TYPE_CHECKING:
    from diffuzz.casefile import Statement
    from diffuzz.corpus import Entry

_folder = click.option(
    "--corpus",
    "folder",
    metavar="DIR",
    help="Corpus folder. [default: corpora if there is one here, else .diffuzz/corpora]",
)


@click.group("corpus")
def command() -> None:
    """The cases that every run replays first.

    One YAML file a case, to be read and edited by hand. A finding's file says what is expected of
    it: `status: open` goes red, `status: known` with a reason and a date does not until that day,
    `status: {fixed-in: REV}` goes red if it ever comes back.
    """


@command.command("list")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@_folder
@options.target_folders
def list_entries(
    targets: tuple[str, ...], folder: str | None, target_folders: tuple[str, ...]
) -> None:
    """Show the entries, simplest first within each target.

    Without --corpus, of all corpora that a run replays: diffuzz's own and .diffuzz/corpora.
    """
    from diffuzz.corpus import default_folders

    places = default_folders() if folder is None else [Path(folder)]
    for place in places:
        if not place.is_dir():
            raise UsageError(f"{place}: no such folder")
        if len(places) > 1:
            click.echo(f"{place}:")
        for name in targets or _present(place):
            _list(place, name, target_folders)


def _list(place: Path, name: str, target_folders: tuple[str, ...]) -> None:
    from diffuzz.case import sort_key
    from diffuzz.corpus import load

    target = discovery.load(name, target_folders)
    entries = [(entry.case(target.axes), entry) for entry in load(place, target)]
    click.echo(f"{name}: {len(entries)} {'entry' if len(entries) == 1 else 'entries'}")
    for case, entry in sorted(entries, key=lambda pair: sort_key(pair[0], target.axes)):
        moved = [a.name for a in target.axes if case[a.name] != a.default]
        shown = " ".join(f"{axis}={_short(case[axis])}" for axis in moved)
        click.echo(f"  {Path(entry.file.path).name}  {shown or 'every axis at its default'}")
        for line in _told(entry):
            click.echo(f"      {line}")


@command.command("add")
@click.argument("files", nargs=-1, required=True, metavar="CASE.yaml...")
@_folder
@click.option("--status", type=click.Choice(["open", "known"]), help="What is expected.")
@click.option("--fixed-in", metavar="REV", help="The finding was fixed in this revision.")
@click.option("--reason", metavar="TEXT", help="Why it is known, or how it was fixed.")
@click.option("--expires", type=click.DateTime(["%Y-%m-%d"]), help="Last day it is known.")
@click.option("--note", metavar="TEXT", help="What the case is for.")
@options.target_folders
def add_files(
    files: tuple[str, ...],
    folder: str | None,
    status: str | None,
    fixed_in: str | None,
    reason: str | None,
    expires: datetime | None,
    note: str | None,
    target_folders: tuple[str, ...],
) -> None:
    """Add cases or findings. What quotes vLLM (messages) is left out."""
    from diffuzz.casefile import read_case_file
    from diffuzz.corpus import add

    said = _statement(status, fixed_in, reason, expires.date() if expires else None)
    place = _place(folder)
    read = [read_case_file(Path(name)) for name in files]
    loaded = [discovery.load(file.target, target_folders) for file in read]
    for file, target in zip(read, loaded, strict=True):
        path, new = add(place, file, target, said, note)
        click.echo(f"{path}: {'added' if new else 'was there'}")


def _statement(
    status: str | None, fixed_in: str | None, reason: str | None, expires: date | None
) -> Statement | None:
    from diffuzz.casefile import Statement

    if status is not None and fixed_in is not None:
        raise UsageError("--status and --fixed-in exclude each other")
    if fixed_in is not None:
        return Statement("fixed-in", fixed_in, reason, None)
    if status == "known":
        if not reason or expires is None:
            raise UsageError("--status known needs --reason and --expires")
        return Statement("known", None, reason, expires)
    if expires is not None:
        raise UsageError("only --status known expires")
    if status is None and reason is not None:
        raise UsageError("--reason needs --status or --fixed-in")
    return Statement("open", None, reason) if status else None


@command.command("prune")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@_folder
@click.option("--dry-run", is_flag=True, help="Say what would go, and leave it.")
@options.target_folders
def prune_entries(
    targets: tuple[str, ...], folder: str | None, dry_run: bool, target_folders: tuple[str, ...]
) -> None:
    """Keep the simplest case of each finding; drop known ones whose time is over."""
    from diffuzz.corpus import Dropped, prune

    def say(dropped: Dropped) -> None:
        click.echo(f"{dropped.entry.file.path}: {dropped.why}")

    place = _place(folder)
    if not place.is_dir():
        raise UsageError(f"{place}: no such folder")
    count = 0
    for name in targets or _present(place):
        target = discovery.load(name, target_folders)
        count += len(prune(place, target, date.today(), say, dry_run=dry_run))
    click.echo(f"{count} {'would go' if dry_run else 'dropped'}")


@command.command("merge")
@click.argument("other", metavar="DIR")
@_folder
def merge_corpora(other: str, folder: str | None) -> None:
    """Bring the entries of the corpus DIR into this one. Either order gives the same."""
    from diffuzz.corpus import merge

    new, changed = merge(_place(folder), Path(other))
    click.echo(f"{new} new, {changed} changed")


def _place(folder: str | None) -> Path:
    from diffuzz.corpus.folder import USERS_FOLDER

    if folder is not None:
        return Path(folder)
    here = Path("corpora")
    return here if here.is_dir() else USERS_FOLDER


def _present(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir() if p.is_dir() and p.name[0] not in "._")


def _short(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _told(entry: Entry) -> list[str]:
    from diffuzz.corpus import expectation

    lines = []
    if entry.signature is not None:
        said = expectation(entry, date.today())
        lines.append(f"{entry.signature}: {said.text}" + ("" if said.red else " (not red)"))
    if entry.file.note:
        lines.append(entry.file.note)
    return lines
