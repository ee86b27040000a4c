"""Reading and writing case files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from diffuzz.case import Axis, Case, make_case
from diffuzz.casefile.fields import MAX_TEXT, SCHEMA, Statement, axis_line, read_fields, statement
from diffuzz.casefile.nodes import Map, Problem, read_map
from diffuzz.errors import CaseError, UsageError


@dataclass(frozen=True)
class CaseFile:
    """What a case or finding file says. Fields a plain case lacks are None.

    ``expected`` is what the file says of its finding. ``document`` knows the lines.
    """

    path: str
    target: str
    seed: int
    values: dict[str, Any]
    arch: str | None = None
    executor: str | None = None
    signature: str | None = None
    direction: str | None = None
    baseline: str | None = None
    candidate: str | None = None
    id: str | None = None
    kind: str | None = None
    message: str | None = None
    note: str | None = None
    expected: Statement | None = None
    document: Map | None = field(default=None, compare=False, repr=False)

    def case(self, axes: Sequence[Axis]) -> Case:
        """The validated case; :class:`CaseError` names the file, the line and the axis."""
        try:
            return make_case(self.target, axes, self.values, self.seed)
        except CaseError as error:
            raise CaseError(f"{self.place(str(error).partition(':')[0])}: {error}") from None

    def place(self, axis: str = "values") -> str:
        """``FILE:LINE`` of an axis or field."""
        if self.document is None:
            return self.path
        return f"{self.path}:{axis_line(self.document, axis)}"


def read_case_file(path: Path) -> CaseFile:
    """Read a case or finding file; :class:`UsageError` says where and what is wrong."""
    document = read_map(path)
    try:
        fields = read_fields(document)
        expected = statement(fields, document)
    except Problem as problem:
        raise UsageError(f"{path}:{problem.line}: {problem.reason}") from None
    for name in ("schema", "status", "reason", "expires"):
        fields.pop(name, None)
    fields.setdefault("seed", 0)
    return CaseFile(str(path), expected=expected, document=document, **fields)


class _Dumper(yaml.SafeDumper):
    """Lists in one line, no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, True)
)

_ORDER = (
    "id",
    "target",
    "kind",
    "direction",
    "signature",
    "message",
    "note",
    "arch",
    "executor",
    "baseline",
    "candidate",
)


def render(file: CaseFile) -> str:
    """The text of a file: fields in one order, those that are None left out."""
    document: dict[str, Any] = {"schema": SCHEMA}
    for name in _ORDER:
        value = getattr(file, name)
        if value is not None:
            document[name] = _clean(value)
    if file.expected is not None:
        document.update(_said(file.expected))
    document["seed"] = file.seed
    document["values"] = {
        axis: list(value) if isinstance(value, (tuple, list)) else value
        for axis, value in file.values.items()
    }
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True))


def _clean(text: str) -> str:
    """Text that can be written and read again: no lone surrogates, not too long."""
    text = text.encode("utf-8", errors="replace").decode("utf-8")
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _said(expected: Statement) -> dict[str, Any]:
    fixed = expected.word == "fixed-in"
    said: dict[str, Any] = {"status": {"fixed-in": expected.revision} if fixed else expected.word}
    if expected.reason is not None:
        said["reason"] = _clean(expected.reason)
    if expected.expires is not None:
        said["expires"] = expected.expires
    return said


def write_case_file(path: Path, file: CaseFile) -> None:
    """Write ``file`` to ``path``, all or nothing; :class:`UsageError` where that fails."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(render(file), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{path}: {error.strerror or error}") from None
