"""A bisect in words, from the data of its JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_WHAT = {"regression": "brought the behaviour", "fixed": "fixed it"}


def lines(data: dict[str, Any]) -> Iterator[str]:
    """Lines for a terminal: the answer first, then what it stands on."""
    yield (
        f"bisect {data['target']}, case {data['case']}, {data['signature']}:"
        f" good {data['good']}, bad {data['bad']}"
    )
    if data["problem"] is not None:
        yield f"no answer: {data['problem']}"
    elif data["culprit"] is not None:
        yield f"the commit that {_WHAT[data['direction']]}:"
        yield f"  {commit(data['culprit'])}"
    else:
        yield from _range(data)
    yield from _measured(data)
    yield from _blame(data["blame"])
    if data["transitions"]:
        yield f"changes of behaviour along the way ({len(data['transitions'])}):"
        for item in data["transitions"]:
            yield f"  {_word(item['was'])} -> {_word(item['now'])}{_ulps(item)}  {commit(item)}"
    if data["confidence"] is not None:
        yield f"confidence {confidence(data['confidence'])}{_checked(data['checked'])}"
    yield _cost(data)
    for note in data["notes"]:
        yield f"note: {note}"


def commit(item: dict[str, Any]) -> str:
    """One line: id, date, subject (which holds the number of the pull request)."""
    if "release" in item:
        return str(item["release"])
    return f"{item['commit'][:10]} {item['date'][:10]} {item['subject']}"


def confidence(value: float) -> str:
    """A probability that is never rounded up to certainty."""
    return f"{min(value, 0.9999):.2%}"


def ulp(value: float | str) -> str:
    """An error in ulp for people."""
    return f"{float(value):.3g}"


def _range(data: dict[str, Any]) -> Iterator[str]:
    found = data["range"]
    words = {"regression": "came", "fixed": "was fixed"}
    older, newer = ("good", "bad") if data["direction"] == "regression" else ("bad", "good")
    yield (
        f"the behaviour {words[data['direction']]} after {found[older]} ({older}) and not after"
        f" {found[newer]} ({newer})"
    )
    for item in found["untested"]:
        yield f"  cannot tell {item['spans']} from {commit(item)}: {item['reason']}"


def _word(value: str | float) -> str:
    return value if isinstance(value, str) else f"{ulp(value)} ulp rms"


def _measured(data: dict[str, Any]) -> Iterator[str]:
    sizes = data["measure"] or {}
    good, bad = sizes.get("good"), sizes.get("bad")
    if good is None or bad is None:
        return
    pair = [good, bad] if data["direction"] == "regression" else [bad, good]
    text = " -> ".join(ulp(m["max_ulp"]) for m in pair)
    rms = " -> ".join(ulp(m["rms_ulp"]) for m in pair)
    yield f"error: max {text} ulp, rms {rms} ulp"


def _ulps(item: dict[str, Any]) -> str:
    was, now = item["measure"]["was"], item["measure"]["now"]
    if was is None or now is None:
        return ""
    return f" ({ulp(was['max_ulp'])} -> {ulp(now['max_ulp'])} ulp)"


def _blame(found: dict[str, Any] | None) -> Iterator[str]:
    if found is None:
        return
    yield f"inside it: {found['text']}"
    for name in found["carriers"]:
        yield f"  {name}"


def _checked(turns: dict[str, Any] | None) -> str:
    if turns is None:
        return ""
    sides = []
    for side in ("good", "bad"):
        counts = turns[side]
        if counts:
            words = ", ".join(f"{n} {word}" for word, n in sorted(counts.items()))
            sides.append(f"the {side} side {words}")
    return f"; run again in turns in fresh workers: {'; '.join(sides)}" if sides else ""


def _cost(data: dict[str, Any]) -> str:
    runs, seconds = data["runs"], data["seconds"]
    return (
        f"{data['spanned']} commits spanned, {data['variants']} variants, {data['tested']} slices"
        f" judged, {runs['run']} runs ({runs['remembered']} remembered), {seconds['total']:.1f} s"
        f" ({seconds['history']:.1f} s reading history)"
    )
