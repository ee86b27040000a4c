"""The state between nights, in one folder: ``state.json`` beside drafts and reports.

Every save joins what is on disk with what this process knows, under a lock, and replaces the file
whole. So a night killed at any point leaves a state that can be read, and two shards on one folder
keep each other's results. ``state.before.json`` is the state as the last night found it, for a
file that something else damaged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffuzz.cache import atomic_write, locked
from diffuzz.errors import UsageError
from diffuzz.nightly.join import SCHEMA, Data, canonical, empty, empty_unit, join

_FILE = "state.json"
_BEFORE = "state.before.json"
_LOCK = "state.lock"
# The fields without which the join could not be made; deeper ones are written by us alone.
_SHAPE = {"units": dict, "findings": dict, "nights": dict, "drafted": dict}


@dataclass
class StateFolder:
    """The state kept in ``folder``. ``notes`` says what was wrong when it was opened."""

    folder: Path
    data: Data = field(default_factory=empty)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def reopen(cls, folder: Path) -> StateFolder:
        """The state of a folder that was opened before in this process."""
        opened = cls(folder)
        with locked(folder / _LOCK):
            opened.data = opened._read()
        return opened

    @classmethod
    def open(cls, folder: Path) -> StateFolder:
        """Raises :class:`UsageError` for a folder that cannot be made or written."""
        opened = cls(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--state {folder}: {error.strerror or error}") from None
        with locked(folder / _LOCK):
            opened.data = opened._read()
            if (folder / _FILE).exists():
                atomic_write(folder / _BEFORE, _text(opened.data))
        return opened

    def save(self) -> None:
        """Join with what is on disk and replace it."""
        with locked(self.folder / _LOCK):
            self.data = join(self._read(), self.data)
            atomic_write(self.folder / _FILE, _text(self.data))

    def merge(self, other: Path) -> str | None:
        """Join the state in ``other`` into this one; why there is none to join, or None."""
        path = other / _FILE if other.is_dir() else other
        if not path.is_file():
            return f"{other}: no state there, so its results are lost"
        try:
            self.data = join(self.data, load(path))
        except UsageError as error:
            return f"{error}, so its results are lost"
        return None

    def unit(self, key: str) -> Data:
        """The state of one unit, made if need be."""
        found: Data = self.data["units"].setdefault(key, empty_unit())
        return found

    def finding(self, key: str) -> Data | None:
        found: Data | None = self.data["findings"].get(key)
        return found

    def add_finding(self, key: str, record: Data) -> Data:
        """The finding's state; a simpler case than the stored one takes its place."""
        mine = {"record": record, "looks": [], "answers": {}}
        own = {**empty(), "findings": {key: mine}}
        self.data = join(self.data, own)
        found: Data = self.data["findings"][key]
        return found

    def _read(self) -> Data:
        """What is on disk; a file that cannot be read is set aside, and said so."""
        path = self.folder / _FILE
        if not path.exists():
            return empty()
        try:
            return load(path)
        except UsageError as error:
            path.replace(path.with_suffix(".damaged.json"))
            self.notes.append(f"{error}; it was set aside as {path.stem}.damaged.json")
        try:
            found = load(self.folder / _BEFORE)
        except UsageError:
            self.notes.append("there is no earlier state either: this night starts from nothing")
            return empty()
        self.notes.append("going on from the state before the last night")
        return found


def load(path: Path) -> Data:
    """The state in a file; :class:`UsageError` says why it is none."""
    try:
        data: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise UsageError(f"{path}: not a whole JSON file") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise UsageError(f"{path}: not a state of schema {SCHEMA}")
    for name, kind in _SHAPE.items():
        if not isinstance(data.get(name), kind):
            raise UsageError(f"{path}: {name} is missing")
    try:
        return join(data, empty())
    except (KeyError, TypeError, AttributeError):
        raise UsageError(f"{path}: not a state that can be read") from None


def _text(data: Data) -> bytes:
    return (json.dumps(data, sort_keys=True, indent=1) + "\n").encode()


__all__ = ["StateFolder", "canonical", "load"]
