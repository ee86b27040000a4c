"""The draft of an issue for one finding. It is text for a person to read, amend and send: nothing
here or elsewhere in diffuzz sends it.

The draft carries the case file itself, because the reader has no access to the run's folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from diffuzz.errors import UsageError
from diffuzz.report.escaping import code, fence, prose, table
from diffuzz.report.wording import clean, culprit, explanation, location, notes, number

_TITLE = 120
_SUMMARIES = {
    "regression": "is right at the baseline and wrong at the candidate",
    "fixed": "is wrong at the baseline and right at the candidate",
    "both": "is wrong at both revisions",
}
_MEASURES = {
    "max_ulp": "largest error (ulp)",
    "rms_ulp": "rms error (ulp)",
    "max_rel": "largest relative error",
    "wrong": "wrong elements",
    "total": "elements",
    "first": "first wrong index",
    "expected": "expected there",
    "actual": "actual there",
}


def find(report: dict[str, Any], finding_id: str) -> dict[str, Any]:
    """The finding of that id; :class:`UsageError` lists those there are."""
    for finding in report["findings"]:
        if finding["id"] == finding_id:
            found: dict[str, Any] = finding
            return found
    known = ", ".join(clean(finding["id"]) for finding in report["findings"]) or "none"
    raise UsageError(f"no finding {finding_id!r} in this run; it has {known}")


def issue(report: dict[str, Any], finding: dict[str, Any]) -> str:
    """The draft as Markdown: title, what is wrong, where, the case, how to see it again."""
    return "\n\n".join(_blocks(report, finding)) + "\n"


def title(finding: dict[str, Any]) -> str:
    """One line of at most about 150 characters: target, arch, what is wrong."""
    text = clean(finding["message"]).removeprefix(f"{finding['aspect']}: ").partition("; ")[0]
    if finding["explanation"]:
        text = f"{finding['aspect']} {finding['explanation']['text']}"
    elif finding["location"]:
        place = finding["location"]
        text = text.removesuffix(f" at {place['file']}:{place['line']}")
    if len(text) > _TITLE:
        text = text[:_TITLE].rsplit(" ", 1)[0] + " …"
    return clean(f"{finding['target']} on {finding['arch']}: {text}")


def _blocks(report: dict[str, Any], finding: dict[str, Any]) -> Iterator[str]:
    yield f"# {prose(title(finding))}"
    yield "<!-- A draft made by diffuzz. Read it, amend it, then send it yourself. -->"
    yield (
        f"The kernel behind {code(finding['target'])} {_SUMMARIES[finding['direction']]} "
        f"(kind: {prose(finding['kind'])}, seen in {finding['cases_hit']:,} of "
        f"{_cases(report, finding):,} cases on {code(finding['arch'])})."
    )
    yield fence(finding["message"])
    yield "### Where"
    yield "\n".join(f"- {line}" for line in _where(finding))
    yield "### Revisions"
    yield _revisions(report)
    if any(finding["measure"].values()):
        yield "### How wrong"
        yield _measure(finding["measure"])
    yield from _picture(finding)
    yield from _case(report, finding)
    yield "### Environment"
    yield _environment(report, finding)


def _cases(report: dict[str, Any], finding: dict[str, Any]) -> int:
    here = (finding["target"], finding["arch"])
    return sum(item["cases"] for item in report["targets"] if (item["name"], item["arch"]) == here)


def _where(finding: dict[str, Any]) -> Iterator[str]:
    place, commit = location(finding), culprit(finding)
    yield f"source: {code(place)}" if place else "source: not known"
    if finding["explanation"]:
        yield f"diagnosis: {code(explanation(finding['explanation']))}"
    if finding["backends"]:
        yield f"backends reached: {', '.join(code(name) for name in finding['backends'])}"
    yield f"culprit: {code(commit)}" if commit else "culprit: not looked for (`diffuzz bisect`)"


def _revisions(report: dict[str, Any]) -> str:
    rows = []
    for side in ("baseline", "candidate"):
        found = report[side]
        date = (found["date"] or "").replace("T", " ")[:16]
        rows.append(
            [
                side,
                *(code(cell) or "–" for cell in (found["revision"], found["commit"] or "", date)),
            ]
        )
    return table(["", "revision", "commit", "date"], rows)


def _measure(measures: dict[str, Any]) -> str:
    rows = []
    for name, label in _MEASURES.items():
        cells = [(measures[side] or {}).get(name) for side in ("baseline", "candidate")]
        if any(cell is not None for cell in cells):
            rows.append([label, *(_cell(cell) for cell in cells)])
    return table(["", "baseline", "candidate"], rows, right=2)


def _cell(item: object) -> str:
    return code(str(item)) if isinstance(item, list) else prose(number(item))


def _picture(finding: dict[str, Any]) -> Iterator[str]:
    """The smallest error map as text, if the run kept one: a digit is ninths of wrong elements."""
    side = "baseline" if finding["direction"] == "fixed" else "candidate"
    errors = (finding.get("errors") or {}).get(side) or {}
    maps = [found for found in errors.get("maps", []) if set("".join(found["cells"])) - set("0.")]
    if maps:
        found = min(maps, key=lambda item: len(item["cells"]) * len(item["cells"][0]))
        yield "### Where in the output"
        yield (
            f"Rows: {prose(found['rows'])}; columns: {prose(found['cols'])}. A cell is the share "
            "of wrong elements: 0 none, 9 all, . not judged."
        )
        yield fence("\n".join(found["cells"]), limit=6000)


def _case(report: dict[str, Any], finding: dict[str, Any]) -> Iterator[str]:
    name = clean(f"{finding['id']}.yaml")
    words = [name, *_revision_words(report, finding)]
    yield "### Reproduce"
    yield f"The simplest case that shows it. Save as {code(name)}:"
    yield fence(_yaml(finding), "yaml", limit=20_000)
    yield "Then, without installing vLLM (exit code 1 while it is wrong, 0 once it is right):"
    yield fence(shlex.join(["diffuzz", "replay", *words]), "sh")
    yield "For one Python file that needs torch and triton alone:"
    yield fence(shlex.join(["diffuzz", "reproducer", *words]), "sh")


def _revision_words(report: dict[str, Any], finding: dict[str, Any]) -> list[str]:
    """The wrong revision as another machine can name it: a commit where it is known, since a
    branch moves on and a folder is not there."""
    wrong = report["baseline" if finding["direction"] == "fixed" else "candidate"]
    if wrong["commit"]:
        return ["--revision", wrong["commit"], "--repo", "VLLM_CLONE"]
    return ["--revision", wrong["revision"]]


def _yaml(finding: dict[str, Any]) -> str:
    case = finding["case"]
    document = {
        "target": finding["target"],
        "arch": finding["arch"],
        "executor": finding["executor"],
        "seed": case["seed"],
        "values": case["values"],
    }
    return yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)


def _environment(report: dict[str, Any], finding: dict[str, Any]) -> str:
    known = {"executor": finding["executor"], **report["environment"]}
    rows = [[prose(name), code(value)] for name, value in known.items() if value is not None]
    here = (finding["target"], finding["arch"])
    rows += [
        ["note", prose(note)]
        for item, note in notes(report)
        if (item["name"], item["arch"]) == here
    ]
    return table(["what", "version"], rows)
