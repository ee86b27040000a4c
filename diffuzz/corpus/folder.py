"""A corpus on disk: ``FOLDER/TARGET/NAME.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from diffuzz.casefile import read_case_file, write_case_file
from diffuzz.corpus.entries import Entry, stored_signature
from diffuzz.errors import CaseError, UsageError
from diffuzz.target import Target

MAX_ENTRIES = 10_000
USERS_FOLDER = Path(".diffuzz") / "corpora"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}\.yaml")
_IGNORED = {"README.md"}


def own_folder() -> Path:
    """The corpus that comes with diffuzz: ``corpora/`` of the repository or of the package."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "corpora"
    return shipped if shipped.is_dir() else package.parent / "corpora"


def default_folders() -> list[Path]:
    """The corpora a run replays: diffuzz's own, then the user's in the current folder."""
    return [own_folder(), *([USERS_FOLDER] if USERS_FOLDER.is_dir() else [])]


def load(folder: Path, target: Target) -> list[Entry]:
    """The entries of ``target`` in ``folder``, by file name; none where there is no such folder.

    Every entry is read strictly and must be a case the target allows. Raises
    :class:`UsageError` or :class:`CaseError` with file, line and reason.
    """
    entries = _read(folder / target.name)
    for entry in entries:
        why = target.allowed(entry.case(target.axes))
        if why is not None:
            raise CaseError(f"{entry.file.place()}: the contract excludes this case: {why}")
    return entries


def load_all(folder: Path) -> list[Entry]:
    """The entries of all targets in ``folder``, by target and file name. The values are not
    held against the target's axes."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    below = sorted(path for path in folder.iterdir() if path.is_dir())
    return [entry for path in below if path.name[0] not in "._" for entry in _read(path)]


def write(folder: Path, entry: Entry) -> Path:
    """Write ``entry`` under its own name and return where."""
    path = folder / entry.target / entry.name
    write_case_file(path, entry.file)
    return path


def _read(folder: Path) -> list[Entry]:
    return [_entry(path, folder.name) for path in _files(folder)]


def _files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    names = sorted(path.name for path in folder.iterdir())
    if len(names) > MAX_ENTRIES:
        raise UsageError(f"{folder}: more than {MAX_ENTRIES} files")
    for name in names:
        path = folder / name
        if name.startswith(".") or name in _IGNORED:
            continue
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{str(path)!r}: not the name of a corpus file (letters, digits, .yaml)"
            )
        if path.is_symlink():
            raise UsageError(f"{path}: a link; a corpus holds its files itself")
        yield path


def _entry(path: Path, target: str) -> Entry:
    file = read_case_file(path)
    if file.target != target:
        raise UsageError(f"{file.place('target')}: target {file.target} in the folder of {target}")
    if file.signature is not None:
        file = replace(file, signature=stored_signature(file.signature))
    return Entry(file)
