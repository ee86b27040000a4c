"""Reads a run's folder back: ``report.json``, and ``timeline.json`` where there is one.

A stored report may have been edited, cut off or written by another version, so its structure is
checked before anything is made from it: :class:`UsageError` names the file and the place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from diffuzz.errors import UsageError
from diffuzz.finding import Direction, Kind, Verdict

SCHEMA = 1
_MAX_BYTES = 256 << 20

# A shape is a type, a tuple of shapes of which one must fit, a set of the texts allowed, [shape]
# for a list of it, {str: shape} for a mapping to it, or a mapping of field to shape, where a field
# that ends in "?" may be absent. Fields that are not named are kept as they are.
_TEXT = (str, None)
_NUMBER = (int, float, str)  # infinities and NaN are written as text
_REVISION = {"revision": str, "commit": _TEXT, "version?": _TEXT, "date": _TEXT}
_BINS = [{"label": str, "count": int, "wrong": int}]
_MAPS = [{"rows": str, "cols": str, "cells": [str]}]
_ERRORS = {"unit": str, "shape": [int], "histogram": _BINS, "maps": _MAPS, "note?": _TEXT}
_CULPRIT = {"commit": str, "date?": _TEXT, "subject?": _TEXT, "pr?": (int, str, None)}
_RATES = {"runs": int, "before": int, "after": int}
_SHRUNK = {"tried": int, "complete?": bool, "why?": _TEXT, "rates?": (_RATES, None)}
_FINDING = {
    "id": str,
    "kind": {kind.value for kind in Kind},
    "direction": {direction.value for direction in Direction},
    "signature": str,
    "aspect": str,
    "message": str,
    "target": str,
    "arch": str,
    "executor": str,
    "case": {"id": str, "seed": int, "values": dict, "off_default?": [str]},
    "cases_hit": int,
    "measure": {"baseline": (dict, None), "candidate": (dict, None)},
    "explanation": ({"text": str, "share": (int, float)}, None),
    "location": ({"file": str, "line": int, "function?": _TEXT}, None),
    "backends": [str],
    "reproduce": str,
    "errors?": ({"baseline": (_ERRORS, None), "candidate": (_ERRORS, None)}, None),
    "culprit?": (_CULPRIT, None),
    "follows?": _TEXT,
    "known?": ({"red": bool, "text": str}, None),
    "shrunk?": (_SHRUNK, None),
}
_COVERED = [{"value": str, "count": int, "differ?": int}]
_AXIS = {"name": str, "default": str, "parts": [{"of": str, "values": _COVERED}]}
_PAIRS = {"total": int, "drawn": int, "missing": [[str]]}
_TARGET = {
    "name": str,
    "arch": str,
    "executor": str,
    "slices": {"baseline": _TEXT, "candidate": _TEXT},
    "cases": int,
    "verdicts": {verdict.value: int for verdict in Verdict},
    "unknown_reasons": {str: int},
    "findings": [_FINDING],
    "seconds": (int, float),
    "coverage?": ({"cases": int, "axes": [_AXIS], "pairs": _PAIRS}, None),
    "target_archs?": [str],
    "native?": {str: {"note": str}},
}
_REPORT = {
    "schema": int,
    "environment": {"diffuzz": str},
    "started": str,
    "seed": int,
    "baseline": _REVISION,
    "candidate": _REVISION,
    "targets": [_TARGET],
    "findings": [_FINDING],
}
_TIMELINE = [{"commit": str, "date": str, "subject": str, "verdict": str, "measure?": object}]
# What ``diffuzz timeline --json`` writes: variants of a slice, judged on several cases.
_VERDICTS = [{"verdict": str, "measure": ({"max_ulp": _NUMBER}, None)}]
_VARIANTS = {
    "variants": [
        {"commit?": str, "date?": str, "subject?": str, "release?": str, "verdicts": _VERDICTS}
    ]
}


def read_report(folder: Path) -> dict[str, Any]:
    """The report of the run kept in ``folder``; with ``timeline`` if the folder has one."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    path = folder / "report.json"
    if not path.is_file():
        raise UsageError(f"{folder}: no report.json in it, so it is not the folder of a run")
    report = _read(path)
    if not isinstance(report, dict):
        raise UsageError(f"{path}: not a report, which is a mapping")
    if report.get("schema") != SCHEMA:
        raise UsageError(f"{path}: schema {report.get('schema')!r} is not {SCHEMA}")
    _check(path, report, _REPORT, "")
    line = folder / "timeline.json"
    if line.is_file():
        report["timeline"] = _timeline(line)
    return report


def _timeline(path: Path) -> list[dict[str, Any]]:
    """One entry for each revision, oldest first, from a list of them or from the document of
    ``diffuzz timeline``, where a variant is as bad as its worst case."""
    found = _read(path)
    if not isinstance(found, dict):
        _check(path, found, _TIMELINE, "")
        entries: list[dict[str, Any]] = found
        return entries
    _check(path, found, _VARIANTS, "")
    return [_entry(variant) for variant in found["variants"]]


def _entry(variant: dict[str, Any]) -> dict[str, Any]:
    words = [cell["verdict"] for cell in variant["verdicts"]]
    verdict = next((word for word in ("wrong", "unknown", "right") if word in words), "unknown")
    sizes = [cell["measure"]["max_ulp"] for cell in variant["verdicts"] if cell["measure"]]
    return {
        "commit": variant.get("commit") or variant.get("release") or "",
        "date": variant.get("date") or "",
        "subject": variant.get("subject") or "",
        "verdict": verdict,
        "measure": {"max_ulp": max(sizes, key=_size)} if sizes else None,
    }


def _size(value: object) -> float:
    """A measure as a number, however it is written; what is none is the largest."""
    try:
        number = float(str(value))
    except ValueError:
        return float("inf")
    return float("inf") if number != number else number


def _read(path: Path) -> Any:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{path}: larger than a report can be ({_MAX_BYTES} bytes)")
        return json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise UsageError(f"{path}: not JSON that can be read: {error}") from None


def _check(path: Path, item: object, shape: Any, at: str) -> None:
    """Raise unless ``item`` has ``shape``; ``at`` is where it stands in the document."""
    if isinstance(shape, tuple):
        _check_one_of(path, item, shape, at)
    elif isinstance(shape, list):
        if not isinstance(item, list):
            raise _wrong(path, at, item, "a list")
        for index, part in enumerate(item):
            _check(path, part, shape[0], f"{at}[{index}]")
    elif isinstance(shape, dict):
        _check_mapping(path, item, shape, at)
    elif isinstance(shape, set):
        if not isinstance(item, str) or item not in shape:
            raise _wrong(path, at, item, f"one of {', '.join(sorted(shape))}")
    elif not _is(item, shape):
        raise _wrong(path, at, item, _name(shape))


def _check_one_of(path: Path, item: object, shapes: tuple[Any, ...], at: str) -> None:
    """The shape of the item's own type decides, so that the message is about what is inside."""
    for shape in shapes:
        if isinstance(shape, (dict, list)) and isinstance(item, type(shape)):
            _check(path, item, shape, at)
            return
    if not any(not isinstance(shape, (dict, list)) and _is(item, shape) for shape in shapes):
        raise _wrong(path, at, item, " or ".join(_name(shape) for shape in shapes))


def _check_mapping(path: Path, item: object, shape: dict[Any, Any], at: str) -> None:
    if not isinstance(item, dict):
        raise _wrong(path, at, item, "a mapping")
    if str in shape:
        for key, part in item.items():
            _check(path, part, shape[str], f"{at}.{key}".lstrip("."))
        return
    for field, wanted in shape.items():
        name = field.removesuffix("?")
        here = f"{at}.{name}".lstrip(".")
        if name in item:
            _check(path, item[name], wanted, here)
        elif name == field:
            raise UsageError(f"{path}: {here} is missing")


def _is(item: object, wanted: Any) -> bool:
    if wanted is None:
        return item is None
    if wanted in (int, float) and isinstance(item, bool):
        return False
    return isinstance(item, wanted)


def _name(shape: Any) -> str:
    if isinstance(shape, (dict, list)):
        return "a mapping" if isinstance(shape, dict) else "a list"
    names = {
        bool: "true or false",
        str: "text",
        int: "an integer",
        float: "a number",
        dict: "a mapping",
        None: "null",
    }
    return names.get(shape, str(shape))


def _wrong(path: Path, at: str, item: object, wanted: str) -> UsageError:
    where = f"{at} " if at else ""
    return UsageError(f"{path}: {where}is {repr(item)[:60]}, not {wanted}")
