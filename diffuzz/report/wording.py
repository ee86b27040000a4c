"""Words that several reports share, and foreign text made safe to carry.

Messages come from vLLM, from compilers and from crash logs. :func:`clean` is the one place where
they lose what no document should carry: terminal escapes, control characters, marks that reorder
text, halves of surrogate pairs. Escaping for a document's own syntax is that document's affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

DIRECTIONS = {"regression": "regression", "both": "in both", "fixed": "fixed"}
FAIL_ON = ("regression", "any", "never")

_TERMINAL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
)
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters; not tab, newline, return
    r"\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # invisible or reordering
    r"\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"  # not characters at all
)


def _escape(match: re.Match[str]) -> str:
    point = ord(match[0])
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}"


def clean(text: object, limit: int | None = None, *, lines: bool = False) -> str:
    """``text`` without terminal escapes, and with what cannot be shown written as an escape.

    White space becomes single spaces, unless ``lines``: then line ends are kept (as ``\\n``).
    What exceeds ``limit`` characters is cut and counted.
    """
    shown = _UNSAFE.sub(_escape, _TERMINAL.sub("", str(text)))
    if lines:
        shown = "\n".join(line.rstrip() for line in shown.splitlines()).strip("\n")
    else:
        shown = " ".join(shown.split())
    if limit is not None and len(shown) > limit:
        shown = f"{shown[:limit].rstrip()} … ({len(shown) - limit:,} more characters)"
    return shown


def is_known(finding: dict[str, Any]) -> bool:
    """Whether the corpus has the finding as known, so that it is shown but not red."""
    said = finding.get("known")
    return said is not None and not said["red"]


def is_red(fail_on: str, finding: dict[str, Any]) -> bool:
    """Whether ``--fail-on`` makes this finding a failure, by the rule of the exit code."""
    if is_known(finding):
        return False
    return fail_on == "any" or (fail_on == "regression" and finding["direction"] == "regression")


def ordered(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings in the order of reading: regressions, latent ones, fixed ones; of each, those that
    only follow from another last."""
    order = list(DIRECTIONS)
    return sorted(
        findings,
        key=lambda item: (order.index(item["direction"]), item.get("follows") is not None),
    )


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' * (count != 1)}"


def revision(side: dict[str, Any]) -> str:
    """A revision in a few words: as it was given, its commit, its day."""
    commit = f" {side['commit'][:12]}" if side.get("commit") else ""
    date = f" ({side['date'][:10]})" if side.get("date") else ""
    return clean(f"{side['revision']}{commit}{date}")


def location(finding: dict[str, Any]) -> str | None:
    place = finding.get("location")
    if place is None:
        return None
    function = f" in {place['function']}" if place.get("function") else ""
    return clean(f"{place['file']}:{place['line']}{function}")


def value(item: object) -> str:
    """A value of a case as people write it: ``[1, 17]``, ``true``, ``0.5``, ``bf16``."""
    if isinstance(item, list):
        return f"[{', '.join(value(part) for part in item)}]"
    if isinstance(item, bool):
        return "true" if item else "false"
    return "none" if item is None else clean(item)


def case(finding: dict[str, Any]) -> str:
    """The values of the case that are off their defaults, where the run says which are."""
    values = finding["case"]["values"]
    moved = finding["case"].get("off_default")
    shown = [
        f"{clean(name)}={value(item).replace(' ', '')}"
        for name, item in values.items()
        if moved is None or name in moved
    ]
    return " ".join(shown) or "every axis at its default"


def shrunk(finding: dict[str, Any]) -> str | None:
    """What shrinking came to, if it was asked for."""
    found = finding.get("shrunk")
    if not found:
        return None
    if found.get("why"):
        return clean(found["why"])
    said = f"{plural(found['tried'], 'case')} tried"
    if not found.get("complete", True):
        said += ", stopped when its time was up"
    rates = found.get("rates")
    if rates:
        said += f"; fails in {rates['after']} of {rates['runs']} runs"
    return said


def notes(report: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """What stood in for the real thing in a target's runs, such as a model of a native op."""
    return [
        (item, clean(note))
        for item in report["targets"]
        for note in sorted({side["note"] for side in item.get("native", {}).values()} - {""})
    ]


def culprit(finding: dict[str, Any]) -> str | None:
    """The commit that a bisection named, if one was made."""
    found = finding.get("culprit")
    if not found:
        return None
    date = f" ({clean(found['date'])[:10]})" if found.get("date") else ""
    subject = f" {clean(found['subject'], 200)}" if found.get("subject") else ""
    return f"{clean(found['commit'])[:12]}{date}{subject}"


def facts(finding: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What there is to say of a finding below its message, as (label, text)."""
    place, commit, smaller = location(finding), culprit(finding), shrunk(finding)
    if place:
        yield "at", place
    yield "case", f"{clean(finding['case']['id'])}: {case(finding)}"
    if finding["explanation"]:
        yield "explanation", explanation(finding["explanation"])
    if finding["backends"]:
        yield "backends reached", clean(", ".join(finding["backends"]))
    if commit:
        yield "culprit", commit
    if finding.get("follows"):
        yield "follows from", clean(finding["follows"])
    if finding.get("known"):
        yield "corpus", clean(finding["known"]["text"])
    if smaller:
        yield "shrunk", smaller
    yield "reproduce", clean(finding["reproduce"])


def explanation(found: dict[str, Any]) -> str:
    return f"{clean(found['text'])} ({100 * float(found['share']):.3g} % of wrong elements)"


def number(item: object) -> str:
    """A measure for reading: four significant digits, thousands apart."""
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        return "–" if item is None else clean(item)
    return f"{item:,}" if isinstance(item, int) else f"{item:,.4g}"
