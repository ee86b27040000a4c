"""Markdown for the summary of a GitHub job: verdicts in a table, then each finding.

GitHub takes a summary of up to 1 MiB; what is over :data:`_FINDINGS` findings is counted only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diffuzz.report.escaping import code, fence, prose, table
from diffuzz.report.wording import DIRECTIONS, facts, is_known, notes, ordered, plural, revision

_FINDINGS = 50
_MESSAGE = 2000
_FACT = 1000
_ICONS = {"regression": "🔴", "both": "🟠", "fixed": "🟢"}


def markdown(report: dict[str, Any]) -> str:
    """The summary. Text that comes from vLLM or a compiler cannot act as Markdown in it."""
    return "\n\n".join(_blocks(report)) + "\n"


def headline(report: dict[str, Any]) -> str:
    """The run in one line, such as ``1 regression, 2 fixed``. What the corpus knows and what only
    follows from another finding is counted by itself."""
    counts, known, following = dict.fromkeys(DIRECTIONS, 0), 0, 0
    for finding in report["findings"]:
        if is_known(finding):
            known += 1
        elif finding.get("follows"):
            following += 1
        else:
            counts[finding["direction"]] += 1
    said = [
        plural(count, "regression") if name == "regression" else f"{count:,} {DIRECTIONS[name]}"
        for name, count in counts.items()
        if count
    ]
    said += [f"{known:,} known"] if known else []
    said += [f"{following:,} that follow{'s' * (following == 1)}"] if following else []
    judged = sum(
        item["verdicts"]["agree"] + item["verdicts"]["differ"] for item in report["targets"]
    )
    if said:
        return ", ".join(said if counts["regression"] else ["no regression", *said])
    return "nothing to report" if judged else "nothing could be tested"


def _blocks(report: dict[str, Any]) -> Iterator[str]:
    yield f"## diffuzz: {headline(report)}"
    yield (
        f"Baseline {code(revision(report['baseline']))} against candidate "
        f"{code(revision(report['candidate']))}, seed {report['seed']}."
    )
    yield _targets(report)
    said = [
        f"- {code(item['name'])} on {code(item['arch'])}: {prose(note)}"
        for item, note in notes(report)
    ]
    if said:
        yield "\n".join(said)
    findings = ordered(report["findings"])
    for finding in findings[:_FINDINGS]:
        yield from _finding(finding)
    if len(findings) > _FINDINGS:
        yield f"… and {plural(len(findings) - _FINDINGS, 'more finding')}: see the full report."
    yield from _unknown(report)


def _targets(report: dict[str, Any]) -> str:
    head = ["target", "arch", "executor", "slices", "cases", "agree", "differ", "unknown"]
    rows = []
    for item in report["targets"]:
        verdicts, slices = item["verdicts"], item["slices"]
        same = slices["baseline"] is not None and slices["baseline"] == slices["candidate"]
        unknown = verdicts["unknown"] or sum(item["unknown_reasons"].values())
        rows.append(
            [
                code(item["name"]),
                code(item["arch"]),
                code(item["executor"]),
                "same" if same else "differ",
                *(f"{n:,}" for n in (item["cases"], verdicts["agree"], verdicts["differ"])),
                f"**{unknown:,}**" if unknown else "0",
            ]
        )
    return table(head, rows, right=4)


def _finding(finding: dict[str, Any]) -> Iterator[str]:
    direction = finding["direction"]
    yield (
        f"### {_ICONS[direction]} {DIRECTIONS[direction]}: {prose(finding['kind'])} in "
        f"{prose(finding['target'])} on {prose(finding['arch'])} "
        f"({plural(finding['cases_hit'], 'case')})"
    )
    yield fence(finding["message"], limit=_MESSAGE)
    yield "\n".join(f"- {label}: {code(text, _FACT)}" for label, text in facts(finding))


def _unknown(report: dict[str, Any]) -> Iterator[str]:
    rows = [
        [
            code(item["name"]),
            code(item["arch"]),
            plural(count, "case") if item["cases"] else "not tested",
            code(reason, _FACT),
        ]
        for item in report["targets"]
        for reason, count in item["unknown_reasons"].items()
    ]
    if rows:
        yield "### Could not tell"
        yield table(["target", "arch", "what", "why"], rows)
