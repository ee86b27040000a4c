"""A run on a terminal: one table, then each finding in a few lines."""

from __future__ import annotations

import textwrap
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_STYLES = {"regression": "bold red", "fixed": "bold green", "both": "bold yellow"}
# Lines of a pipe or a log are left whole: they are searched, and commands in them are pasted.
_UNWRAPPED = 10_000
_LABELS = {
    "regression": "REGRESSION",
    "fixed": "FIXED",
    "both": "IN BOTH",
}


def render(report: dict[str, Any], console: Console) -> None:
    """Print ``report`` (the data of :mod:`diffuzz.report.data`)."""
    console.print(_heading(report))
    console.print(_table(report))
    groups = _grouped(report)
    for group in groups:
        if group[0]["follows"] is None:
            _finding(group, console)
            _followers(group, groups, console)
    _notes(report, console)
    _unknown(report, console)


def _name(side: dict[str, Any]) -> str:
    commit = f" {side['commit'][:10]}" if side["commit"] else ""
    date = f" ({side['date'][:10]})" if side["date"] else ""
    return f"{side['revision']}{commit}{date}"


def _heading(report: dict[str, Any]) -> str:
    return (
        f"diffuzz {report['environment']['diffuzz']} · seed {report['seed']}"
        f" · baseline {_name(report['baseline'])} · candidate {_name(report['candidate'])}"
    )


def _slices(slices: dict[str, str | None]) -> str:
    baseline, candidate = (
        "none" if value is None else value[:8]
        for value in (slices["baseline"], slices["candidate"])
    )
    return f"{baseline} = same" if baseline == candidate else f"{baseline} → {candidate}"


def _table(report: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("target", "arch", "executor", "slice"):
        table.add_column(column, no_wrap=True)
    for column in ("cases", "agree", "differ", "unknown"):
        table.add_column(column, justify="right", no_wrap=True)
    for item in report["targets"]:
        verdicts = item["verdicts"]
        unknown = verdicts["unknown"] or (sum(item["unknown_reasons"].values()))
        table.add_row(
            item["name"],
            item["arch"],
            item["executor"],
            _slices(item["slices"]),
            str(item["cases"]),
            str(verdicts["agree"]),
            str(verdicts["differ"]),
            Text(str(unknown), style="yellow" if unknown else ""),
        )
    return table


def _grouped(report: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Findings that say the same of several archs, together; order as in the report."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for item in report["findings"]:
        key = (item["target"], item["direction"], item["signature"])
        groups.setdefault(key, []).append(item)
    order = list(_LABELS)
    return sorted(groups.values(), key=lambda group: order.index(group[0]["direction"]))


def _finding(group: list[dict[str, Any]], console: Console) -> None:
    first = group[0]
    archs = ", ".join(item["arch"] for item in group)
    hits = sum(item["cases_hit"] for item in group)
    console.print()
    title = Text()
    title.append(_LABELS[first["direction"]], style=_STYLES[first["direction"]])
    title.append(f" {first['kind']}", style="bold")
    title.append(f" · {first['target']} on {archs} · {hits} case{'s' * (hits != 1)}")
    console.print(title)
    lines = [first["message"]]
    if first["location"]:
        lines.append(f"at {first['location']['file']}:{first['location']['line']}")
    lines.append(f"case {first['case']['id']}: {_values(first['case'])}")
    if first["backends"]:
        lines.append(f"backends reached: {', '.join(first['backends'])}")
    if first["known"]:
        lines.append(f"corpus: {first['known']['text']}")
    lines.append(f"reproduce: {first['reproduce']}")
    width = console.width if console.is_terminal else _UNWRAPPED
    for line in lines:
        for part in textwrap.wrap(line, width - 2, subsequent_indent="  ") or [""]:
            console.print(Text("  " + part), soft_wrap=True)


def _followers(
    group: list[dict[str, Any]], groups: list[list[dict[str, Any]]], console: Console
) -> None:
    """What the same cases show besides, a line each."""
    ids = {item["id"] for item in group}
    for other in groups:
        if other[0]["follows"] in ids:
            line = f"also {other[0]['kind']}: {other[0]['message']}"
            console.print(Text("  " + line, style="dim"), soft_wrap=True)


def _values(case: dict[str, Any]) -> str:
    """The axes off their default: the others are what anyone would try first."""
    shown = []
    for name in case["off_default"]:
        value = case["values"][name]
        text = "x".join(map(str, value)) if isinstance(value, list) else f"{value}"
        shown.append(f"{name}={text}")
    return " ".join(shown) or "every axis at its default"


def _notes(report: dict[str, Any], console: Console) -> None:
    """What stood in for the real thing: said once a target, never left to be guessed."""
    for item in report["targets"]:
        if item.get("timing"):
            line = f"timing: {item['name']} on {item['arch']}: {item['timing']['said']}"
            console.print(Text(line), soft_wrap=True)
        checked = item.get("sanitizer", {"cases": 0, "note": ""})
        if checked["cases"] or checked["note"] not in ("", "not asked for"):
            said = checked["note"] or f"{checked['cases']} cases under ASan and UBSan"
            console.print(Text(f"sanitizers: {item['name']} on {item['arch']}: {said}"))
        sides = item.get("native", {}).values()
        for note in sorted({side["note"] for side in sides if side["note"]}):
            line = f"note: {item['name']} on {item['arch']}: {note}"
            console.print(Text(line, style="yellow"), soft_wrap=True)


def _unknown(report: dict[str, Any], console: Console) -> None:
    for item in report["targets"]:
        for reason, count in item["unknown_reasons"].items():
            what = f"{count} case{'s' * (count != 1)}" if item["cases"] else "not tested"
            line = f"could not tell: {item['name']} on {item['arch']}: {what}: {reason}"
            console.print(Text(line, style="yellow"), soft_wrap=True)
