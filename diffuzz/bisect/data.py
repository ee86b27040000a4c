"""A bisect as plain data: the JSON of ``diffuzz bisect``, schema 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffuzz.bisect.finding import Bisected
from diffuzz.bisect.question import worst
from diffuzz.bisection import (
    Answer,
    BadEnds,
    Culprit,
    Evidence,
    NoDifference,
    Range,
    Seen,
    Transition,
)
from diffuzz.report.data import measure

SCHEMA = 1


def bisected(found: Bisected) -> dict[str, Any]:
    """``culprit`` and ``range`` are both there, one of them null (both where the ends are not as
    claimed, which ``problem`` then says)."""
    answer, row = found.answer, found.row
    data = _asked(found)
    if found.turns is not None:
        data["checked"] = {"good": dict(found.turns.good), "bad": dict(found.turns.bad)}
    if isinstance(answer, (BadEnds, NoDifference)):
        data["problem"] = problem(found, answer)
        return data
    data["confidence"] = answer.confidence
    data["transitions"] = [_transition(found, item) for item in answer.transitions]
    if isinstance(answer, Culprit) and row.repository is not None:
        data["outcome"] = "culprit"
        data["culprit"] = found.variants[answer.index].revision_data()
        sides = (answer.last_good, answer.first_bad)
    else:
        data["range"] = _range(found, answer)
        pair = (answer.last_good, answer.first_bad) if isinstance(answer, Culprit) else None
        sides = pair or (answer.good, answer.bad)  # type: ignore[union-attr]
    data["measure"] = {
        "good": _size(found, sides[0]),
        "bad": _size(found, sides[1]),
    }
    return data


def _asked(found: Bisected) -> dict[str, Any]:
    """What was asked and looked at, whatever came of it."""
    answer, row = found.answer, found.row
    return {
        "schema": SCHEMA,
        "target": found.question.case.target,
        "case": found.question.case.id,
        "signature": found.question.signature,
        "direction": row.direction.value,
        "good": row.good,
        "bad": row.bad,
        "outcome": _outcome(answer),
        "culprit": None,
        "range": None,
        "problem": None,
        "tested": found.tested,
        "spanned": row.history.revisions - 1,
        "variants": len(found.variants),
        "transitions": [],
        "confidence": None,
        "measure": None,
        "evidence": [_evidence(found, item) for item in answer.evidence],
        "checked": None,
        "blame": None,
        "notes": list(found.notes),
    }


def _outcome(answer: Answer) -> str:
    if isinstance(answer, BadEnds) and answer.unknown:
        return "unknown"
    if isinstance(answer, NoDifference) or (isinstance(answer, BadEnds) and answer.same):
        return "same"
    return "swapped" if isinstance(answer, BadEnds) else "range"


def problem(found: Bisected, answer: BadEnds | NoDifference) -> str:
    """What is wrong with the ends, with the revisions' names and the reasons seen there."""
    text = answer.why
    if isinstance(answer, NoDifference):
        return f"{text} ({found.row.good} and {found.row.bad})"
    for name, end in (("good", found.row.good), ("bad", found.row.bad)):
        reason = _reason(found, name)
        if answer.which in (name, "both"):
            text += f"; {name} end {end}" + (f": {reason}" if reason else "")
    return text


def _reason(found: Bisected, end: str) -> str:
    oldest = (end == "good") == (found.row.direction.value == "regression")
    index = 0 if oldest else len(found.variants) - 1
    return _why(found, index)


def _why(found: Bisected, index: int) -> str:
    """Why a variant cannot be told, or what defect it shows."""
    variant = found.variants[index]
    if variant.reason is not None:
        return variant.reason
    for judged in found.judged.get(index, ()):
        look = found.question.look(judged)
        if look.why or look.defect is not None:
            return look.why or (look.defect.message if look.defect else "")
    return ""


def _range(found: Bisected, answer: Range | Culprit) -> dict[str, Any]:
    untested: tuple[int, ...] = ()
    if isinstance(answer, Culprit):
        good, bad = answer.last_good, answer.first_bad
    else:
        good, bad, untested = answer.good, answer.bad, answer.untested
    older, newer = min(good, bad), max(good, bad)
    ends = {older: found.variants[older].until, newer: found.variants[newer].revision}
    return {
        "good": ends[good],
        "bad": ends[bad],
        "untested": [
            {
                **found.variants[i].revision_data(),
                "spans": found.variants[i].spans,
                "reason": _why(found, i) or "not run",
            }
            for i in untested
        ],
        "commits": sum(found.variants[i].spans for i in untested) + 1,
        "why": answer.why if isinstance(answer, Range) else "",
    }


def _evidence(found: Bisected, item: Evidence) -> dict[str, Any]:
    variant = found.variants[item.index]
    looks = [found.question.look(j) for j in found.judged.get(item.index, ())]
    counts = {"good": item.good, "bad": item.bad, "unknown": item.skip}
    if not looks and item.index not in found.judged:
        counts = {"good": 0, "bad": 0, "unknown": 0}
    return {
        **variant.revision_data(),
        "slice": variant.hash,
        "spans": variant.spans,
        **counts,
        "seen": _word(item),
        "detail": _why(found, item.index),
        "measure": _size(found, item.index),
    }


def _word(item: Evidence) -> str:
    if item.size is not None:
        return f"{item.size:.4g}"
    if item.bad:
        return Seen.BAD.value
    return Seen.GOOD.value if item.good else "unknown"


def _size(found: Bisected, index: int) -> dict[str, Any] | None:
    for judged in found.judged.get(index, ()):
        if judged.unknown is None:
            return measure(worst(judged))
    return None


def _transition(found: Bisected, item: Transition) -> dict[str, Any]:
    def word(value: Seen | float) -> str | float:
        return value.value if isinstance(value, Seen) else value

    between: Mapping[str, Any] = {
        "was": word(item.was),
        "now": word(item.now),
        "after": found.variants[item.last].until,
        "untold": item.first - item.last - 1,
        "measure": {"was": _size(found, item.last), "now": _size(found, item.first)},
    }
    return {**found.variants[item.first].revision_data(), **between}
