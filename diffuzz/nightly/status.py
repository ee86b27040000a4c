"""A finding's progress, read out of the looks that were taken at it.

A look is one answer about one slice: ``shown``, ``right``, ``flaky`` (in some runs) or ``unknown``
(with the reason). What a night could not see is never a recovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from diffuzz.nightly.join import Data

OPEN, FIXED, FLAKY = "open", "fixed", "flaky"
UNSEEN = "not seen because of machinery"
HIDDEN = "hidden by another failure"
# How the reason begins where the kernel fails on the case, but otherwise.
OTHER_FAILURE = "another failure"
CONCLUSIVE = ("shown", "right", "flaky")


@dataclass(frozen=True)
class Status:
    """Where a finding stands. ``since`` is the night it came to stand there, ``look`` the look
    that says so, ``returned`` whether it had been fixed before. ``unseen`` is why the newest look
    told nothing; ``answer`` what a bisect of the present state came to."""

    word: str
    since: str
    look: Data
    returned: bool = False
    unseen: str | None = None
    answer: Data | None = None

    @property
    def text(self) -> str:
        if self.unseen is None:
            return self.word
        return HIDDEN if self.unseen.startswith(OTHER_FAILURE) else UNSEEN

    @property
    def culprit(self) -> Data | None:
        """The commit that brought (or fixed) it, if a bisect is certain of it."""
        if self.answer is None or not self.answer["certain"]:
            return None
        found: Data | None = self.answer["culprit"]
        return found


def status(finding: Data) -> Status:
    """Of all looks, those of the newest night that could tell count; the rest is history."""
    now: Status | None = None
    unseen: str | None = None
    for group in _groups(finding):
        told = _telling(group)
        if told is None:
            unseen = group[-1]["why"]
            continue
        unseen = None
        word = {"shown": OPEN, "flaky": FLAKY, "right": FIXED}[told["word"]]
        if now is not None and now.word == word:
            continue
        returned = now is not None and (now.word == FIXED or now.returned)
        now = Status(word, told["night"], told, returned)
    if now is None:
        first = finding["looks"][0]
        now = Status(OPEN, first["night"], first)
    answer = finding["answers"].get(now.look.get("asks") or "")
    return Status(now.word, now.since, now.look, now.returned, unseen, answer)


def _groups(finding: Data) -> list[list[Data]]:
    """Looks at one commit in one night, oldest first."""
    found = groupby(finding["looks"], key=lambda look: (look["night"], look["commit"]))
    return [list(group) for _, group in found]


def _telling(looks: Iterable[Data]) -> Data | None:
    """The look that counts of one night's: a shard that saw it outweighs one that did not."""
    order = {"shown": 2, "flaky": 1, "right": 0}
    told = [look for look in looks if look["word"] in CONCLUSIVE]
    return max(told, key=lambda look: order[look["word"]], default=None)


def last_told(finding: Data) -> Data | None:
    """The newest look that could tell."""
    told = (_telling(group) for group in reversed(_groups(finding)))
    return next((look for look in told if look is not None), None)


def first_night(finding: Data) -> str:
    found: str = finding["looks"][0]["night"]
    return found


def is_accepted(finding: Data, night: str) -> bool:
    """Whether the corpus has the finding as known, on that night."""
    said = finding["record"]["accepted"]
    return said is not None and night[:10] <= said["until"]


def is_regression(finding: Data, night: str) -> bool:
    """Whether it counts against the revision that shows it: not latent, not accepted."""
    return finding["record"]["direction"] == "regression" and not is_accepted(finding, night)


def leads(findings: dict[str, Any]) -> dict[str, str]:
    """Finding → the one whose issue speaks for it: what one commit did, the same mistake on
    another arch, or what follows from another finding is one issue. The earliest leads, so that
    issues do not move."""
    states = {key: status(finding) for key, finding in findings.items()}
    order = sorted(findings, key=lambda key: (first_night(findings[key]), key))
    result: dict[str, str] = {}
    leading: dict[tuple[str, ...], str] = {}
    for key in order:
        result[key] = key
        if states[key].word == FIXED:
            continue
        places = list(_places(findings[key]["record"], states[key]))
        result[key] = next((leading[place] for place in places if place in leading), key)
        for place in places:
            leading.setdefault(place, result[key])
    for key in order:
        follows = findings[key]["record"]["follows"]
        alone = result[key] == key and states[key].culprit is None
        if alone and follows in findings and states[follows].word != FIXED:
            result[key] = result[follows]
    return result


def _places(record: Data, now: Status) -> Iterator[tuple[str, ...]]:
    """What two findings of one issue have in common."""
    if now.culprit is not None:
        yield (record["target"], now.culprit["commit"])
    yield (record["target"], record["signature"], record["direction"], now.word)
