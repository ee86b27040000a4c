"""A timeline as one HTML file with an SVG in it: the error over history, one row a case.

Nothing is loaded from elsewhere and nothing runs: every text of vLLM's (subjects, reasons) is
escaped, and titles of SVG elements are the only interaction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from html import escape
from typing import Any

_LEFT, _RIGHT, _TOP = 190, 20, 34
_WIDTH, _ROW, _GAP = 1180, 44, 10
_COLOURS = {"right": "#2a8a4a", "wrong": "#c0392b", "unknown": "#b0b0b0"}
# The scale of an error in powers of two of an ulp; what is beyond is drawn at its end.
_LOW, _HIGH = -2.0, 12.0

_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1240px; color: #222; }}
svg {{ width: 100%; height: auto; }} svg text {{ font: 11px system-ui, sans-serif; fill: #333; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .2em .8em .2em 0; text-align: left;
vertical-align: top; }} code {{ font-family: ui-monospace, monospace; }}
</style></head><body>
<h1>{title}</h1>
<p>{lead}</p>
{svg}
<p>{legend}</p>
<table><tr><th>commit</th><th>date</th><th>subject</th><th>case</th><th>change</th><th>max ulp</th>
</tr>
{rows}
</table></body></html>
"""


def page(data: dict[str, Any]) -> str:
    """The whole file, from the data of the timeline's JSON."""
    title = f"{data['target']} on {data['arch']}: {data['from']} to {data['to']}"
    lead = (
        f"{data['revisions']} commits, {len(data['variants'])} variants,"
        f" {data['distinct_slices']} distinct slices, {len(data['cases'])} cases,"
        f" {len(data['transitions'])} changes of verdict"
    )
    legend = " ".join(
        f'<span style="color:{colour}">&#9632;</span> {word}' for word, colour in _COLOURS.items()
    )
    return _PAGE.format(
        title=escape(title),
        lead=escape(lead),
        svg=svg(data),
        legend=legend + "; height: max error in ulp, from 1/4 to 4096, on a log scale",
        rows="\n".join(_rows(data["transitions"])),
    )


def _rows(transitions: list[dict[str, Any]]) -> Iterator[str]:
    for item in transitions:
        name = item.get("commit", item.get("release", ""))[:12]
        change = f"{_said(item['was'])} → {_said(item['now'])}"
        sizes = " → ".join(_ulp(item[side]["measure"]) for side in ("was", "now"))
        cells = [item.get("date", "")[:10], item.get("subject", ""), item["case"], change, sizes]
        rest = "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
        yield f"<tr><td><code>{escape(name)}</code></td>{rest}</tr>"


def _said(cell: dict[str, Any]) -> str:
    what = ", ".join(cell["what"])
    return f"{cell['verdict']} ({what})" if what else str(cell["verdict"])


def _ulp(measure: dict[str, Any] | None) -> str:
    return "" if measure is None else f"{float(measure['max_ulp']):.4g}"


def svg(data: dict[str, Any]) -> str:
    """The picture alone. Without dates (releases) variants are spaced evenly."""
    xs = _places(data["variants"], data.get("until"))
    height = _TOP + len(data["cases"]) * (_ROW + _GAP) + 10
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="error over history">']
    parts += _ticks(data["variants"], xs, height)
    for number, case in enumerate(data["cases"]):
        parts += _case(data, number, case["name"], xs)
    return "\n".join([*parts, "</svg>"])


def _places(variants: list[dict[str, Any]], until: str | None) -> list[float]:
    """Where each variant begins, and where the last one ends."""
    span = _WIDTH - _LEFT - _RIGHT
    dates = [v.get("date") for v in variants]
    if variants and all(dates) and until:
        times = [datetime.fromisoformat(str(d)).timestamp() for d in [*dates, until]]
        width = (max(times) - times[0]) or 1.0
        return [_LEFT + span * max(0.0, t - times[0]) / width for t in times]
    return [_LEFT + span * i / max(len(variants), 1) for i in range(len(variants) + 1)]


def _ticks(variants: list[dict[str, Any]], xs: list[float], height: int) -> Iterator[str]:
    free = 0.0
    for variant, x in zip(variants, xs, strict=False):
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height}" stroke="#e4e4e4">'
            f"<title>{escape(_label(variant))}</title></line>"
        )
        if x >= free:
            text = variant.get("date", variant.get("release", ""))[:10]
            yield f'<text x="{x:.1f}" y="{_TOP - 12}">{escape(text)}</text>'
            free = x + 72


def _label(variant: dict[str, Any]) -> str:
    if "release" in variant:
        return str(variant["release"])
    return f"{variant['commit'][:10]} {variant['date'][:10]} {variant['subject']}"


def _case(data: dict[str, Any], number: int, name: str, xs: list[float]) -> Iterator[str]:
    top = _TOP + number * (_ROW + _GAP)
    yield f'<text x="4" y="{top + _ROW / 2 + 4}">{escape(name[:28])}</text>'
    yield f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH - _LEFT - _RIGHT}" height="{_ROW}" '
    yield 'fill="none" stroke="#eee"/>'
    for index, variant in enumerate(data["variants"]):
        cell = variant["verdicts"][number]
        x, width = xs[index], max(xs[index + 1] - xs[index], 1.5)
        title = f"{_label(variant)}\n{_said(cell)} {_ulp(cell['measure'])}".strip()
        high = _ROW if cell["verdict"] == "unknown" else _bar(cell["measure"])
        shade = ' fill-opacity="0.35"' if cell["verdict"] == "unknown" else ""
        yield (
            f'<rect x="{x:.1f}" y="{top + _ROW - high:.1f}" width="{width:.1f}"'
            f' height="{high:.1f}" fill="{_COLOURS[cell["verdict"]]}"{shade}>'
            f"<title>{escape(title)}</title></rect>"
        )


def _bar(measure: dict[str, Any] | None) -> float:
    """Height of an error on the log scale; what has no measure fills its row half."""
    if measure is None:
        return _ROW / 2
    size = float(measure["max_ulp"])
    if math.isnan(size) or math.isinf(size):
        return float(_ROW)
    log = math.log2(size) if size > 0 else _LOW
    share = (min(max(log, _LOW), _HIGH) - _LOW) / (_HIGH - _LOW)
    return 2 + share * (_ROW - 2)
