"""The fields of a case file: their types, their bounds, and how older schemas become this one.

Schema 1 is what a run wrote before there was a corpus; schema 2 adds ``status``, ``reason``,
``expires`` and ``note``. A field that only a newer schema has is unknown in an older one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from diffuzz.case import SEED_BITS
from diffuzz.casefile.nodes import Items, Map, Node, Plain, Problem, Scalar
from diffuzz.finding import Direction, Kind

SCHEMA = 2
MAX_TEXT = 3000

Word = Literal["open", "known", "fixed-in"]


@dataclass(frozen=True)
class Statement:
    """What is expected of a corpus entry.

    ``open``: known to no one, or not accepted: it goes red. ``known``: accepted for ``reason``
    until ``expires``. ``fixed-in``: ``revision`` fixed it, so showing it again goes red.
    """

    word: Word = "open"
    revision: str | None = None
    reason: str | None = None
    expires: date | None = None


Read = Callable[[str, Node], Any]


def _scalar(name: str, node: Node) -> Scalar:
    if not isinstance(node, Scalar):
        raise Problem(node.line, f"{name} is not text")
    return node


def _matching(pattern: str, wanted: str) -> Read:
    compiled = re.compile(pattern)

    def read(name: str, node: Node) -> str:
        # Text is taken as it is written: a revision may look like a number.
        scalar = _scalar(name, node)
        if not compiled.fullmatch(scalar.text):
            raise Problem(scalar.line, f"{name}: {scalar.text[:60]!r} is not {wanted}")
        return scalar.text

    return read


def _integer(low: int, high: int) -> Read:
    def read(name: str, node: Node) -> int:
        value = _scalar(name, node).value()
        if type(value) is not int or not low <= value <= high:
            raise Problem(
                node.line, f"{name}: {str(value)[:60]!r} is not a whole number from {low} to {high}"
            )
        return value

    return read


def _text(name: str, node: Node) -> str:
    scalar = _scalar(name, node)
    if len(scalar.text) > MAX_TEXT:
        raise Problem(scalar.line, f"{name} is longer than {MAX_TEXT} characters")
    if not scalar.text.strip():
        raise Problem(scalar.line, f"{name} is empty; leave the field out instead")
    return scalar.text


def _day(name: str, node: Node) -> date:
    text = _scalar(name, node).text
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise Problem(node.line, f"{name}: {text[:60]!r} is not a date such as 2027-01-31")


def _values(name: str, node: Node) -> dict[str, Plain | list[Plain]]:
    if not isinstance(node, Map):
        raise Problem(node.line, f"{name} is not a mapping of axes to values")
    return {axis: _value(axis, value) for axis, value in node.entries.items()}


def _value(axis: str, node: Node) -> Plain | list[Plain]:
    if isinstance(node, Scalar):
        return node.value()
    if isinstance(node, Map):
        raise Problem(node.line, f"{axis}: a mapping is not a value")
    return [_item(axis, item) for item in node.items]


def _item(axis: str, node: Node) -> Plain:
    if not isinstance(node, Scalar):
        raise Problem(node.line, f"{axis}: a list in a list")
    return node.value()


_REVISION = _matching(
    r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,398}[^\s\x00-\x1f\x7f])?", "a revision"
)


def _status(name: str, node: Node) -> tuple[str, str | None]:
    """``open``, ``known``, or a mapping with ``fixed-in`` alone."""
    if isinstance(node, Scalar) and node.text in ("open", "known"):
        return node.text, None
    if isinstance(node, Map) and list(node.entries) == ["fixed-in"]:
        return "fixed-in", _REVISION("fixed-in", node.entries["fixed-in"])
    raise Problem(node.line, f"{name} is open, known or a mapping fixed-in: REV")


_COMMON: dict[str, Read] = {
    "schema": _integer(1, 10**6),
    "id": _matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}", "an id"),
    "target": _matching(r"[A-Za-z_][A-Za-z0-9_]{0,63}", "the name of a target"),
    "kind": _matching("|".join(k.value for k in Kind), "a kind of finding"),
    "direction": _matching("|".join(d.value for d in Direction), "a direction"),
    "signature": _text,
    "message": _text,
    "arch": _matching(r"[a-z0-9]{1,20}", "an arch"),
    "executor": _matching(r"[a-z-]{1,20}", "an executor"),
    "baseline": _REVISION,
    "candidate": _REVISION,
    "seed": _integer(0, 2**SEED_BITS - 1),
    "values": _values,
}
FIELDS: dict[int, dict[str, Read]] = {
    1: _COMMON,
    2: {**_COMMON, "status": _status, "reason": _text, "expires": _day, "note": _text},
}


def _from_1(fields: dict[str, Any]) -> dict[str, Any]:
    """A finding that nobody said anything of is open."""
    return {**fields, "status": ("open", None)} if "signature" in fields else fields


_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}


def read_fields(document: Map) -> dict[str, Any]:
    """The fields by name, of the right types, as schema :data:`SCHEMA` has them.

    A file without ``schema`` is of the newest one. Raises :class:`Problem`.
    """
    schema = SCHEMA
    if "schema" in document.entries:
        node = document.entries["schema"]
        schema = _COMMON["schema"]("schema", node)
        if schema > SCHEMA:
            raise Problem(node.line, f"schema {schema} is newer than this diffuzz reads ({SCHEMA})")
    known = FIELDS[schema]
    for name, line in document.lines.items():
        if name not in known:
            raise Problem(line, f"unknown field {name[:60]!r}")
    for name in ("target", "values"):
        if name not in document.entries:
            raise Problem(document.line, f"the field {name} is missing")
    fields = {name: known[name](name, node) for name, node in document.entries.items()}
    for version in range(schema, SCHEMA):
        fields = _MIGRATIONS[version](fields)
    return fields


def statement(fields: Mapping[str, Any], document: Map) -> Statement | None:
    """What the file says is expected, None if it says nothing. Raises :class:`Problem`."""

    def line(name: str) -> int:
        return document.lines.get(name, document.line)

    reason, expires = fields.get("reason"), fields.get("expires")
    if "status" not in fields:
        for name in ("reason", "expires"):
            if name in fields:
                raise Problem(line(name), f"{name} without a status")
        return None
    word, revision = fields["status"]
    if word == "known" and (reason is None or expires is None):
        raise Problem(line("status"), "status known needs a reason and expires: a date")
    if word != "known" and expires is not None:
        raise Problem(line("expires"), "only status known expires")
    return Statement(word, revision, reason, expires)


def axis_line(document: Map, axis: str) -> int:
    """The line an axis's value is in, or that of ``values``."""
    values = document.entries.get("values")
    if isinstance(values, Map) and axis in values.lines:
        return values.lines[axis]
    return document.lines.get(axis, document.lines.get("values", document.line))


__all__ = ["FIELDS", "SCHEMA", "Items", "Statement", "axis_line", "read_fields", "statement"]
