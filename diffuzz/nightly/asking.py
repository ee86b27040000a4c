"""Which commit changed a finding's behaviour: a bisect, kept only as far as it is certain."""

from __future__ import annotations

from typing import Any

from diffuzz.bisect.blame import blame
from diffuzz.bisect.data import bisected
from diffuzz.bisect.finding import search_row
from diffuzz.bisect.question import Question
from diffuzz.bisect.row import Row, open_row
from diffuzz.errors import DiffuzzError
from diffuzz.nightly.join import Data
from diffuzz.verdicts import Judge

# A commit is named to its author's colleagues: below this it stays a range.
CERTAIN = 0.99


def key(direction: str, good: str, bad: str) -> str:
    """What an answer is kept under: the same ends, the same answer."""
    return f"{direction}:{good}..{bad}"


Rows = dict[tuple[str, str, str, str], Row]
"""Rows of variants by target, arch, good and bad: findings of one night often share one."""


def ask(
    judge: Judge, question: Question, repo: str, good: str, bad: str, rows: Rows | None = None
) -> Data:
    """The answer to "which commit": a culprit, a range or the reason why neither is known.

    ``certain`` is true only for a culprit whose two sides were run again in turns in fresh
    workers and behaved as claimed. Where history lacks an end (a rewritten branch), the reason is
    the repository's own words.
    """
    try:
        rows = {} if rows is None else rows
        place = (judge.target.name, judge.arch.name, good, bad)
        if place not in rows:
            rows[place] = open_row(good, bad, judge.target, judge.arch, repo)
        found = search_row(rows[place], question, judge)
        data = bisected(found)
        data["blame"] = blame(found, judge) if data["culprit"] is not None else None
    except DiffuzzError as error:
        return _none(good, bad, str(error))
    return answer(data)


def answer(data: dict[str, Any]) -> Data:
    """A bisect's data (:mod:`diffuzz.bisect.data`) as the state keeps it."""
    found = data["blame"]
    return {
        "direction": data["direction"],
        "good": data["good"],
        "bad": data["bad"],
        "culprit": data["culprit"],
        "range": data["range"],
        "problem": data["problem"],
        "confidence": data["confidence"],
        "certain": _certain(data),
        "spanned": data["spanned"],
        "variants": data["variants"],
        "blame": None
        if found is None
        else {"text": found["text"], "carriers": list(found["carriers"])},
        "notes": list(data["notes"]),
    }


def _certain(data: dict[str, Any]) -> bool:
    if data["culprit"] is None or (data["confidence"] or 0.0) < CERTAIN:
        return False
    checked = data["checked"]
    if checked is None:  # searched by the size of the error: both ends were measured
        return True
    return not checked["good"].get("bad") and bool(checked["bad"].get("bad"))


def reason(found: Data) -> str:
    """Why an answer names no commit."""
    if found["variants"] == 1:
        return f"the code is the same since {found['good'][:10]}"
    if found["problem"]:
        return str(found["problem"])
    between = found["range"]
    if between is None:
        return "the bisect is not certain of one"
    ends = f"between {between['good'][:10]} and {between['bad'][:10]}"
    return f"{ends} ({between['commits']} commits): {between['why'] or 'not certain'}"


def _none(good: str, bad: str, problem: str) -> Data:
    return {
        "direction": None,
        "good": good,
        "bad": bad,
        "culprit": None,
        "range": None,
        "problem": problem,
        "confidence": None,
        "certain": False,
        "spanned": 0,
        "variants": 0,
        "blame": None,
        "notes": [],
    }
