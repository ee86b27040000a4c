"""What one bisect has seen so far, on disk, so that a killed one goes on where it was.

One line of JSON an observation, appended and made durable before anything is concluded from it.
A search is a pure function of its observations, so reading the log again leads to the same place;
a line that was cut off by a kill is dropped. Safe to delete: then everything is run again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffuzz.cache import cache_dir, locked, unwritable
from diffuzz.finding import Judged
from diffuzz.verdicts import digest, from_data, to_data


@dataclass(frozen=True)
class Observation:
    """One verdict on one variant. ``turn`` marks those of the last check, where the two sides of
    the change were run in turns in fresh workers."""

    variant: str
    judged: Judged
    turn: bool = False


class ObservationLog:
    """Observations in the order they were made. Open one with :func:`open_log`."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.observations: list[Observation] = []
        if path is not None:
            self._read(path)
        self.recalled = len(self.observations)

    def add(self, observation: Observation) -> None:
        """Store and remember. Raises :class:`~diffuzz.errors.UsageError` if the disk refuses."""
        if self.path is not None:
            line = json.dumps(
                {
                    "variant": observation.variant,
                    "turn": observation.turn,
                    "judged": to_data(observation.judged),
                }
            )
            try:
                with open(self.path, "ab") as file:
                    file.write(line.encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise unwritable(self.path, error) from None
        self.observations.append(observation)

    def of(self, variant: str) -> list[Judged]:
        """What was seen of a variant, the last check's observations first: they count most."""
        mine = [o for o in self.observations if o.variant == variant]
        return [o.judged for o in sorted(mine, key=lambda o: not o.turn)]

    def _read(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(path, len(whole))
        for line in whole.splitlines():
            try:
                data = json.loads(line)
                self.observations.append(
                    Observation(data["variant"], from_data(data["judged"]), data["turn"])
                )
            except (ValueError, KeyError, TypeError):
                continue  # damaged: what it said is looked at again


@contextmanager
def open_log(inputs: Any, *, fresh: bool = False) -> Iterator[ObservationLog]:
    """The log of the bisect with these ``inputs`` (plain data), for this process alone.

    ``fresh`` forgets what is stored. A second bisect of the same waits for the first.
    """
    path = cache_dir("bisect") / f"{digest(inputs)}.jsonl"
    with locked(path.with_suffix(".lock")):
        if fresh:
            path.unlink(missing_ok=True)
        yield ObservationLog(path)
