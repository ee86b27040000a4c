"""One entry of a corpus, and what it says is expected.

An entry speaks of a finding whichever revision is the baseline, so it has no direction. It holds no
text of vLLM: the message of a finding is left out, and a signature that quotes one
is stored as a digest. A signature found in a run is compared in the same form.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from diffuzz.case import Axis, Case
from diffuzz.casefile import CaseFile, Statement

_QUOTES_NOTHING = re.compile(r"[A-Za-z0-9_.-]*")
_DIGEST = re.compile(r"sha256-[0-9a-f]{16}")


@dataclass(frozen=True)
class Entry:
    """A corpus file. ``file.signature`` is in stored form, None for a case without a finding."""

    file: CaseFile

    @property
    def target(self) -> str:
        return self.file.target

    @property
    def signature(self) -> str | None:
        return self.file.signature

    @property
    def expected(self) -> Statement | None:
        """What is expected; a finding that nobody said anything of is open."""
        if self.file.expected is None and self.signature is not None:
            return Statement()
        return self.file.expected

    @property
    def name(self) -> str:
        """The file's name, from what it holds: the same case and signature, the same name."""
        content = [self.target, self.file.seed, self.file.values, self.signature]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.file.kind or 'case'}-{digest}.yaml"

    def case(self, axes: Sequence[Axis]) -> Case:
        """The validated case; :class:`~diffuzz.errors.CaseError` has file, line and axis."""
        return self.file.case(axes)


def make_entry(file: CaseFile, case: Case) -> Entry:
    """The corpus entry of a case or finding file whose validated case is ``case``."""
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in case.values.items()}
    signature = None if file.signature is None else stored_signature(file.signature)
    return Entry(
        replace(
            file,
            id=None,
            message=None,
            executor=None,
            direction=None,
            baseline=None,
            candidate=None,
            document=None,
            signature=signature,
            seed=case.seed,
            values=values,
        )
    )


def stored_signature(signature: str) -> str:
    """A signature as files in a corpus have it.

    What a run raised or printed (``KIND:run:TEXT``) is replaced by a digest, unless it is a mere
    word; a signature in stored form stays as it is.
    """
    kind, _, rest = signature.partition(":")
    aspect, _, what = rest.partition(":")
    if aspect != "run" or _QUOTES_NOTHING.fullmatch(what) or _DIGEST.fullmatch(what):
        return signature
    return f"{kind}:run:sha256-{hashlib.sha256(what.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Expectation:
    """Whether showing an entry's finding makes a run red, and what to say of it either way."""

    red: bool
    text: str


def expectation(entry: Entry, today: date) -> Expectation:
    """What it means that ``entry``'s finding shows on ``today``."""
    said = entry.expected
    if said is None:
        return Expectation(True, "")
    because = f": {said.reason}" if said.reason else ""
    if said.word == "fixed-in":
        return Expectation(True, f"was fixed in {said.revision}{because}")
    if said.word == "open" or said.expires is None:
        return Expectation(True, f"open{because}")
    if today > said.expires:
        return Expectation(True, f"known only until {said.expires}{because}")
    return Expectation(False, f"known until {said.expires}{because}")


def find(entries: Iterable[Entry], target: str, signature: str) -> Entry | None:
    """The entry that speaks of a finding with ``signature`` (as a run gives it), or None.

    Of several, one that is ``known`` with the latest expiry, else one that was fixed, else open.
    """
    wanted = stored_signature(signature)
    same = [e for e in entries if e.target == target and e.signature == wanted]
    return max(same, key=lambda entry: (strength(entry), entry.name), default=None)


def strength(entry: Entry) -> tuple[int, str, str, str, str]:
    """Of entries for one finding, the statement of the strongest counts; a total order."""
    said = entry.expected or Statement()
    rank = {"open": 0, "fixed-in": 1, "known": 2}[said.word]
    return (
        rank if entry.expected is not None else -1,
        str(said.expires or ""),
        said.revision or "",
        said.reason or "",
        entry.file.note or "",
    )
