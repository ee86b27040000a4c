"""A timeline in words, from the data of its JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diffuzz.report.bisect_text import commit, ulp

_MOST_NAMES = 6
_MOST_MISTAKES = 2


def lines(data: dict[str, Any]) -> Iterator[str]:
    """Lines for a terminal: each commit that changed something, and what it changed."""
    yield (
        f"timeline {data['target']} on {data['arch']} ({data['executor']}):"
        f" {data['revisions']} commits from {data['from']} to {data['to']},"
        f" {len(data['variants'])} variants, {data['distinct_slices']} distinct slices,"
        f" {len(data['cases'])} cases"
    )
    if data["variants"]:
        first = data["variants"][0]
        yield f"begins as: {commit(first)}"
        said = [_said(cell) for cell in first["verdicts"]]
        yield from _grouped(list(zip(said, _names(data), strict=True)), len(data["cases"]))
    for place, items in _by_commit(data["transitions"]):
        yield place
        told = [(f"{_was(i['was'])} -> {_said(i['now'])}{_sizes(i)}", i["case"]) for i in items]
        yield from _grouped(told, len(data["cases"]))
    if not data["transitions"]:
        yield "no change of verdict"
    yield _cost(data)
    for note in data["notes"]:
        yield f"note: {note}"


def _names(data: dict[str, Any]) -> list[str]:
    return [case["name"] for case in data["cases"]]


def _by_commit(transitions: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for item in transitions:
        groups.setdefault(commit(item), []).append(item)
    yield from groups.items()


def _grouped(told: list[tuple[str, str]], cases: int) -> Iterator[str]:
    """Cases that say the same, in one line."""
    groups: dict[str, list[str]] = {}
    for text, name in told:
        groups.setdefault(text, []).append(name)
    for text, names in groups.items():
        shown = ", ".join(names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        which = "all cases" if len(names) == cases > 1 else f"{shown}{more}"
        yield f"  {text}  [{which}]"


def _was(cell: dict[str, Any]) -> str:
    """The reason why nothing could be told was printed where it began."""
    return "cannot tell" if cell["verdict"] == "unknown" else _said(cell)


def _said(cell: dict[str, Any]) -> str:
    what = ", ".join(cell["what"][:_MOST_MISTAKES])
    if len(cell["what"]) > _MOST_MISTAKES:
        what += f" and {len(cell['what']) - _MOST_MISTAKES} more"
    if cell["verdict"] == "unknown":
        return f"cannot tell ({what})"
    return f"wrong ({what})" if what else str(cell["verdict"])


def _sizes(item: dict[str, Any]) -> str:
    was, now = item["was"]["measure"], item["now"]["measure"]
    if was is None and now is None:
        return ""
    pair = ["?" if m is None else ulp(m["max_ulp"]) for m in (was, now)]
    return f" · max {pair[0]} -> {pair[1]} ulp"


def _cost(data: dict[str, Any]) -> str:
    runs, seconds = data["runs"], data["seconds"]
    return (
        f"{len(data['transitions'])} changes of verdict; {runs['run']} runs"
        f" ({runs['remembered']} remembered), {seconds['total']:.1f} s"
        f" ({seconds['history']:.1f} s reading history)"
    )
