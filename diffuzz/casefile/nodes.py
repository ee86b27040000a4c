"""The part of YAML that case files use, read with bounds and with line numbers.

Mappings with text keys, lists, and scalars. No tags, anchors, aliases, merge keys, directives or
second documents: nothing that could build an object, repeat content or mean something else to
another reader. A plain scalar is true, false, a decimal number or text; YAML 1.1's other spellings
(``yes``, ``0x10``, ``010``, ``1:30``, ``1_000``, dates) stay text, for the fields to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from diffuzz.errors import UsageError

MAX_BYTES = 1 << 17
MAX_LINE = 1 << 15
MAX_DEPTH = 4
MAX_NODES = 10_000
MAX_DIGITS = 20

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)

Plain = bool | int | float | str


class Problem(Exception):
    """What is wrong with a file, and in which line (from 1)."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True)
class Scalar:
    """``text`` as written; ``quoted`` text is never a number."""

    text: str
    quoted: bool
    line: int

    def value(self) -> Plain:
        """The scalar as true, false, a number or text."""
        if self.quoted:
            return self.text
        if self.text.lower() in ("true", "false"):
            return self.text.lower() == "true"
        if self.text.lower() in ("", "~", "null"):
            raise Problem(self.line, "a value is missing; leave the field out instead")
        if _NOT_FINITE.fullmatch(self.text):
            raise Problem(self.line, f"{self.text} is not a finite number")
        if _INTEGER.fullmatch(self.text) or _FLOAT.fullmatch(self.text):
            return self._number()
        return self.text

    def _number(self) -> int | float:
        if sum(char.isdigit() for char in self.text) > MAX_DIGITS:
            raise Problem(self.line, f"a number of more than {MAX_DIGITS} digits")
        if _INTEGER.fullmatch(self.text):
            return int(self.text)
        value = float(self.text)
        if value in (float("inf"), float("-inf")):
            raise Problem(self.line, f"{self.text} is not a finite number")
        return value


@dataclass(frozen=True)
class Items:
    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True)
class Map:
    """``entries`` by key, in order; ``lines`` holds the line of each key."""

    entries: dict[str, Node]
    lines: dict[str, int]
    line: int


Node = Scalar | Items | Map


def read_map(path: Path) -> Map:
    """The mapping a file consists of; :class:`UsageError` with file, line and reason."""
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse(raw)
    except Problem as problem:
        raise UsageError(f"{path}:{problem.line}: {problem.reason}") from None


def parse(raw: bytes) -> Map:
    """The mapping that the bytes spell; raises :class:`Problem`."""
    text = _text(raw)
    try:
        found = _Builder(iter(yaml.parse(text, Loader=yaml.SafeLoader))).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise Problem(line, str(error.problem or error.context)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Problem(
            line, f"a character that YAML does not allow (#x{error.character:04x})"
        ) from None
    except (RecursionError, ValueError) as error:
        raise Problem(1, f"not YAML: {str(error).splitlines()[0][:100]}") from None
    if not isinstance(found, Map):
        raise Problem(found.line, "a case file is a mapping with target, seed and values")
    return found


def _text(raw: bytes) -> str:
    if len(raw) > MAX_BYTES:
        raise Problem(1, f"larger than a case file can be ({MAX_BYTES} bytes)")
    if not raw.strip():
        raise Problem(1, "an empty file")
    if raw.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise Problem(1, "begins with a byte order mark; case files are plain UTF-8")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Problem(line, f"not UTF-8 text (byte {error.start})") from None
    for number, line_text in enumerate(text.split("\n"), start=1):
        if len(line_text) > MAX_LINE:
            raise Problem(number, f"a line of more than {MAX_LINE} characters")
        if "\0" in line_text:
            raise Problem(number, "a character that YAML does not allow (#x0000)")
    return text


class _Builder:
    """Nodes out of YAML's events; stops at the first thing that is not allowed."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._nodes = 0

    def document(self) -> Node:
        start: Any = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                start = event
                break
        if start is None:
            raise Problem(1, "an empty file")
        if start.version or start.tags:
            raise Problem(_line(start), "YAML directives are not used here")
        node = self._node(next(self._events), 1)
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise Problem(_line(event), "a second document in one file")
        return node

    def _node(self, event: Any, depth: int) -> Node:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise Problem(line, "anchors and aliases are not used here")
        if getattr(event, "tag", None) is not None:
            raise Problem(line, f"tags are not used here ({event.tag[:60]})")
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise Problem(line, f"more than {MAX_NODES} values")
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, event.style is not None, line)
        if depth > MAX_DEPTH:
            raise Problem(line, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._items(line, depth)
        return self._map(line, depth)

    def _items(self, line: int, depth: int) -> Items:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return Items(tuple(items), line)

    def _map(self, line: int, depth: int) -> Map:
        entries: dict[str, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise Problem(key.line, "a key that is not text")
            if key.text == "<<":
                raise Problem(key.line, "merge keys are not used here")
            if key.text in entries:
                first = lines[key.text]
                raise Problem(key.line, f"{key.text[:60]!r} again (first in line {first})")
            lines[key.text] = key.line
            entries[key.text] = self._node(next(self._events), depth + 1)
        return Map(entries, lines, line)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
