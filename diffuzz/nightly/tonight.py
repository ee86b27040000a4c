"""What the steps of one night share: the clock, the state, open judges, and the account."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from diffuzz.case import Case, make_case, sort_key
from diffuzz.devices import device_name
from diffuzz.nightly.asking import Rows
from diffuzz.nightly.join import Data
from diffuzz.nightly.machinery import Device, visible
from diffuzz.nightly.state import StateFolder
from diffuzz.nightly.status import Status, status
from diffuzz.nightly.units import Shard, Slicers, Unit, units
from diffuzz.report import data
from diffuzz.sources.commit import Commit
from diffuzz.sources.repository import Repository
from diffuzz.target import Target
from diffuzz.verdicts import Judge


@dataclass(frozen=True)
class Settings:
    """The user's choices of one night. ``explore`` None means as many cases as the budget
    allows; ``revision`` is what stands for the head of the branch; ``failed`` are the devices
    that did not pass the probe."""

    repo: str
    state: Path
    night: str
    budget: float
    targets: tuple[str, ...]
    archs: tuple[str, ...]
    executor: str
    lanes: int
    time_limit: float
    corpora: tuple[Path, ...]
    examples: int = 100
    explore: int | None = None
    shard: Shard = field(default_factory=Shard)
    revision: str | None = None
    good: str | None = None
    target_folders: tuple[str, ...] = ()
    device: Device | None = None
    failed: tuple[Device, ...] = ()


@dataclass
class Tonight:
    """One night of one shard. ``entry`` is what the state keeps of it."""

    settings: Settings
    state: StateFolder
    repository: Repository
    head: Commit
    units: list[Unit]
    slicers: Slicers
    entry: Data
    until: float
    quarantined: str | None = None
    rows: Rows = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _judges: dict[str, Judge] = field(default_factory=dict)

    @property
    def night(self) -> str:
        return self.settings.night

    @property
    def shard(self) -> Shard:
        return self.settings.shard

    @property
    def part(self) -> str:
        """This shard among all parts of the night: what it was restricted to, and its number."""
        return " ".join([*sorted(self.settings.targets), str(self.shard)])

    @property
    def folder(self) -> Path:
        """Where this night keeps requests and logs."""
        part = self.part.replace("/", "-of-").replace(" ", "-")
        return self.settings.state / "nights" / self.night / part

    @property
    def seed(self) -> int:
        """Another one each night and shard, the same one when a night is run again."""
        text = f"{self.night} {self.shard}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self.until - time.monotonic())

    def stopped(self) -> str | None:
        """Why nothing more can be run, if that is so."""
        if self.quarantined is not None:
            return self.quarantined
        return "the budget is used up" if self.left() <= 0 else None

    def judge(self, unit: Unit) -> Judge:
        if unit.key not in self._judges:
            self._judges[unit.key] = self._stack.enter_context(
                Judge(
                    unit.target,
                    unit.arch,
                    unit.executor,
                    self.settings.target_folders,
                    time_limit=self.settings.time_limit,
                )
            )
        return self._judges[unit.key]

    def account(self, what: str, unit: str, text: str, *, done: bool = True) -> None:
        """Note what was run of ``what``, or that it was not and why."""
        self.entry["account"].append({"what": what, "unit": unit, "text": text, "done": done})

    def note(self, text: str) -> None:
        self.entry["notes"].append(text)

    def save(self) -> None:
        """Everything so far is safe after this."""
        self.entry["step"] += 1
        self.state.data["nights"].setdefault(self.night, {})[self.part] = self.entry
        self.state.save()

    def of_unit(self, key: str) -> dict[str, Data]:
        """The known findings of a unit."""
        known: dict[str, Data] = self.state.data["findings"]
        return {k: f for k, f in known.items() if f["record"]["unit"] == key}

    def add_look(self, key: str, unit: Unit, word: str, **more: Any) -> Status:
        """Take down what was seen of a finding at the head; the same again is no news."""
        finding: Data = self.state.data["findings"][key]
        look = {
            "night": self.night,
            "shard": str(self.shard),
            "commit": self.head.sha,
            "date": self.head.date.isoformat(),
            "slice": unit.hash,
            "word": word,
            "why": "",
            "bad": 0,
            "runs": 0,
            "asks": None,
            "judge": unit.judge,
            **more,
        }
        last = finding["looks"][-1] if finding["looks"] else None
        same = ("slice", "word", "why", "asks", "judge")
        if last is None or any(last[name] != look[name] for name in same):
            finding["looks"].append(look)
        return status(finding)

    def close(self) -> None:
        self._stack.close()


@contextmanager
def open_night(settings: Settings) -> Iterator[Tonight]:
    """Open state and repository, slice every target at the head, and say so in the state."""
    state = StateFolder.open(settings.state)
    until = time.monotonic() + settings.budget
    with Repository.open(settings.repo) as repository:
        head = repository.commit(settings.revision or _branch(repository))
        slicers = Slicers(repository)
        found = units(
            slicers.at(head),
            settings.targets,
            settings.archs,
            settings.executor,
            settings.target_folders,
        )
        tonight = Tonight(
            settings, state, repository, head, list(found), slicers, _entry(settings, head), until
        )
        try:
            yield tonight
        finally:
            tonight.close()


def _branch(repository: Repository) -> str:
    from diffuzz.errors import UsageError

    branch = repository.main_branch()
    if branch is None:
        raise UsageError(f"{repository} has no main branch; give --revision")
    return branch


def _entry(settings: Settings, head: Commit) -> Data:
    device = settings.device
    broken = bool(settings.failed) and device is None
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
        "step": 0,
        "finished": False,
        "failed": False,
        "head": {
            "commit": head.sha,
            "date": head.date.isoformat(),
            "subject": head.subject,
            "pr": head.pr,
        },
        "environment": data.environment(None if broken else device_name(settings.executor)),
        "devices": {
            "used": str(device) if device is not None else visible(),
            "quarantined": [{"device": str(d), "why": d.problem} for d in settings.failed],
        },
        "targets": [],
        "account": [],
        "notes": [],
        "new": [],
        "seconds": 0.0,
    }


def case_of(record: Data, target: Target) -> Case:
    """The case a finding is kept with; :class:`~diffuzz.errors.CaseError` if the target's axes
    have changed so that it is none any more."""
    said = record["report"]["case"]
    return make_case(target.name, target.axes, said["values"], said["seed"])


def simplicity(case: Case, target: Target) -> list[Any]:
    """:func:`~diffuzz.case.sort_key` as JSON keeps it."""

    def plain(value: Any) -> Any:
        return [plain(item) for item in value] if isinstance(value, tuple) else value

    found: list[Any] = plain(sort_key(case, target.axes))
    return found
