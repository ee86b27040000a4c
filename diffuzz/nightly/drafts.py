"""The draft of one finding's issue over its whole life: the finding, and where it stands.

The same state gives the same text, so a draft changes only when there is something new to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diffuzz.nightly.asking import reason
from diffuzz.nightly.join import Data
from diffuzz.nightly.status import FIXED, FLAKY, Status, first_night, leads, status
from diffuzz.report.escaping import code, prose
from diffuzz.report.issue import issue, title

MARK = "diffuzz-finding"


def draft(state: Data, key: str) -> str:
    """Markdown: title, a hidden mark by which the issue is found again, status, the finding."""
    finding = state["findings"][key]
    record = finding["record"]
    now = status(finding)
    said = {**record["report"], "culprit": _culprit(finding, now)}
    body = issue(_report(record), said).partition("\n\n")[2]
    # Whose doing it is stands in the status, also where a bisect came to nothing.
    body = "\n".join(line for line in body.split("\n") if not line.startswith("- culprit:"))
    head = [
        f"# {prose(title(record['report']))}",
        f"<!-- {MARK}: {key} -->",
        "\n".join(f"- {line}" for line in _standing(state, key, now)),
    ]
    return "\n\n".join(head) + "\n\n" + body


def _standing(state: Data, key: str, now: Status) -> Iterator[str]:
    finding = state["findings"][key]
    yield f"status: **{prose(now.text)}** since night {prose(now.since)}{_rate(now)}"
    if now.unseen is not None:
        yield f"last known: {prose(now.word)}; not seen now because: {code(now.unseen)}"
    yield f"first seen: night {prose(first_night(finding))}"
    if now.returned and now.word != FIXED:
        yield "it had been fixed and came back"
    answer = now.answer
    if answer is not None and answer["culprit"] is not None and answer["certain"]:
        what = "fixed by" if now.word == FIXED else "brought by"
        commit = answer["culprit"]
        yield f"{what} {code(commit['commit'])} {code(commit['subject'])}{_inside(answer)}"
    elif answer is not None:
        yield f"no commit is named: {prose(reason(answer))}"
    others = [k for k, lead in leads(state["findings"]).items() if lead == key and k != key]
    for other in sorted(others):
        report = state["findings"][other]["record"]["report"]
        yield f"it also shows as {code(other)}: {prose(title(report))}"


def _rate(now: Status) -> str:
    if now.word != FLAKY:
        return ""
    return f", it fails in {now.look['bad']} of {now.look['runs']} runs"


def _inside(answer: Data) -> str:
    found = answer["blame"]
    if not found or not found["carriers"]:
        return ""
    return f", in {', '.join(code(name) for name in found['carriers'])}"


def _culprit(finding: Data, now: Status) -> Data | None:
    """The commit that brought it, for the finding itself: while fixed, that is another one."""
    return None if now.word == FIXED else now.culprit


def _report(record: Data) -> dict[str, Any]:
    """What the draft says of the run: the revisions it was found between, and the machine."""
    sides = {
        "baseline": record["baseline"] or record["candidate"],
        "candidate": record["candidate"],
    }
    revisions = {
        side: {"revision": sha[:12], "commit": sha, "date": None} for side, sha in sides.items()
    }
    return {
        **revisions,
        "environment": record["run"]["environment"],
        "targets": [record["run"]["target"]],
        "findings": [],
    }
