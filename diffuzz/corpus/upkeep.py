"""Adding to a corpus, merging two, and dropping what is no longer needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from diffuzz.case import sort_key
from diffuzz.casefile import CaseFile, Statement, render, write_case_file
from diffuzz.corpus.entries import Entry, make_entry, strength
from diffuzz.corpus.folder import load, load_all, write
from diffuzz.errors import UsageError
from diffuzz.target import Target


@dataclass(frozen=True)
class Dropped:
    """An entry that is no longer needed, and why."""

    entry: Entry
    why: str


def add(
    folder: Path,
    file: CaseFile,
    target: Target,
    expected: Statement | None = None,
    note: str | None = None,
) -> tuple[Path, bool]:
    """Add a case or finding to the corpus; returns where it is and whether it is new.

    ``expected`` and ``note`` replace what the file says. A case that is there already takes the
    stronger of the two statements.
    """
    case = file.case(target.axes)
    why = target.allowed(case)
    if why is not None:
        raise UsageError(f"{file.place()}: the contract excludes this case: {why}")
    if expected is not None and file.signature is None:
        raise UsageError(f"{file.path}: a status speaks of a finding, and this is a case alone")
    said = expected or file.expected
    entry = make_entry(replace(file, expected=said, note=note or file.note), case)
    path = folder / entry.target / entry.name
    there = [e for e in load(folder, target) if Path(e.file.path).name == entry.name]
    write(folder, _strongest([entry, *there]))
    return path, not there


def merge(into: Path, other: Path) -> tuple[int, int]:
    """Bring the entries of ``other`` into ``into``; returns how many are new and how many changed.

    The result does not depend on which of the two corpora is merged into which: names come from
    contents, and of two files with one name the one with the stronger statement stays.
    """
    ours = load_all(into) if into.is_dir() else []
    merged: dict[tuple[str, str], list[Entry]] = {}
    for entry in [*ours, *load_all(other)]:
        merged.setdefault((entry.target, entry.name), []).append(entry)
    before = {Path(e.file.path): e for e in ours}
    new = changed = 0
    written = set()
    for entries in merged.values():
        best = _strongest(entries)
        path = into / best.target / best.name
        written.add(path)
        if path not in before:
            new += not any(e.file.path in map(str, before) for e in entries)
        elif render(before[path].file) != render(best.file):
            changed += 1
        write(into, best)
    for path in set(before) - written:  # files whose name did not fit what they hold
        path.unlink()
    return new, changed


def prune(
    folder: Path,
    target: Target,
    today: date,
    say: Callable[[Dropped], None] = lambda dropped: None,
    dry_run: bool = False,
) -> list[Dropped]:
    """Drop what is no longer needed of ``target``'s entries; ``say`` is told of each first.

    Of entries for one finding the simplest case stays, with the strongest statement; a ``known``
    finding whose time is over goes. Cases without a finding stay. ``dry_run`` only says.
    """
    dropped: list[Dropped] = []
    for group in _by_finding(load(folder, target)):
        if group[0].signature is None:
            continue
        group = sorted(group, key=lambda e: (sort_key(e.case(target.axes), target.axes), e.name))
        statement = max(group, key=strength).file.expected
        kept = Entry(replace(group[0].file, expected=statement))
        if _is_over(kept, today):
            why = f"known only until {statement.expires if statement else ''}"
            dropped += [Dropped(entry, why) for entry in group]
            continue
        dropped += [Dropped(entry, f"{kept.name} shows the same") for entry in group[1:]]
        if not dry_run and kept.file != group[0].file:
            write_case_file(Path(kept.file.path), kept.file)
    for item in dropped:
        say(item)
        if not dry_run:
            Path(item.entry.file.path).unlink()
    return dropped


def _by_finding(entries: Iterable[Entry]) -> list[list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.signature or entry.name, []).append(entry)
    return list(groups.values())


def _is_over(entry: Entry, today: date) -> bool:
    said = entry.expected
    return said is not None and said.expires is not None and today > said.expires


def _strongest(entries: Sequence[Entry]) -> Entry:
    """Of files for one case and signature, the one to keep; the same in whatever order."""
    return max(entries, key=lambda entry: (strength(entry), render(entry.file)))
