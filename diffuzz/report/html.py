"""One HTML page of a run that opens from disk: no network, no other file.

The page is ``templates/page.html`` with its style, its script and the report put in. The report
travels as JSON in a script element that is never run, with ``<``, ``>`` and ``&`` written as
escapes, and the page's script only ever sets text, so nothing from a report becomes markup. A
content security policy that knows the two parts by their hash refuses everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from diffuzz.report.markdown import headline
from diffuzz.report.wording import clean, is_known, notes, ordered, revision, shrunk

_SCRIPTS = ("charts.js", "page.js")


def html(report: dict[str, Any]) -> str:
    """The page. ``report["timeline"]``, if there is one, becomes a part of it."""
    style = _template("page.css")
    script = "\n".join(_template(name) for name in _SCRIPTS)
    parts = {
        "style": style,
        "script": script,
        "style-hash": _hash(style),
        "script-hash": _hash(script),
        "data": _embedded(report),
    }
    page = _template("page.html")
    # Each mark is looked for in the template alone, never in what was put in before.
    pieces = page.split("@@")
    for place in range(1, len(pieces), 2):
        pieces[place] = parts[pieces[place]]
    return "".join(pieces)


def _template(name: str) -> str:
    folder = files("diffuzz.report").joinpath("templates")
    return folder.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _embedded(report: dict[str, Any]) -> str:
    """The report as JSON that can stand in a script element (HTML, 13.2.5.4)."""
    shown = {
        **report,
        "headline": headline(report),
        "names": {side: revision(report[side]) for side in ("baseline", "candidate")},
        "findings": [
            {**item, "is_known": is_known(item), "shrinking": shrunk(item)}
            for item in ordered(report["findings"])
        ],
        "notes": [[f"{item['name']} on {item['arch']}", note] for item, note in notes(report)],
        "targets": [{**item, "findings": []} for item in report["targets"]],
    }
    text = json.dumps(_plain(shown), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(item: Any) -> Any:
    """Text without what cannot be shown, line ends kept; numbers that JSON lacks as text."""
    if isinstance(item, dict):
        return {clean(key): _plain(part) for key, part in item.items()}
    if isinstance(item, (list, tuple)):
        return [_plain(part) for part in item]
    if isinstance(item, float) and (item != item or abs(item) == float("inf")):
        return str(item)
    return clean(item, lines=True) if isinstance(item, str) else item
