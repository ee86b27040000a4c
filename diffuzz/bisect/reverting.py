"""A revision with some definitions put back to what they were in its parent.

The parent's text takes the place of the revision's own, in the whole file, so that slicing the
result follows whatever the older text needs; what that finds missing cannot be reverted alone.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from diffuzz.slicing import Slice
from diffuzz.sources import Identity, Source
from diffuzz.sources.tree import blob_id

ROOT = "vllm"


class Overlay:
    """A source with other texts for some paths; None where there shall be no file."""

    def __init__(self, below: Source, texts: Mapping[str, str | None]) -> None:
        self._below = below
        self._texts = texts

    @property
    def identity(self) -> Identity:
        return self._below.identity

    def read(self, path: str) -> str | None:
        return self._texts[path] if path in self._texts else self._below.read(path)

    def exists(self, path: str) -> bool:
        return self.blob_id(path) is not None

    def list(self, prefix: str) -> list[str]:
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        own = {p for p, text in self._texts.items() if text is not None and p.startswith(folder)}
        gone = {p for p, text in self._texts.items() if text is None}
        return sorted((own | set(self._below.list(prefix))) - gone)

    def blob_id(self, path: str) -> str | None:
        if path not in self._texts:
            return self._below.blob_id(path)
        text = self._texts[path]
        return None if text is None else blob_id(text.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class Unit:
    """What is reverted as one: a definition (``names`` are dotted, in the older and the newer
    revision) or a native source file (both are its path). None where a side lacks it."""

    older: str | None
    newer: str | None

    @property
    def name(self) -> str:
        return self.newer or self.older or ""


def changed_units(
    older: Slice, newer: Slice, native: Sequence[Mapping[str, str]]
) -> tuple[Unit, ...]:
    """What differs between two slices, definitions first. ``native`` are both sides' native
    sources, path to text. A definition that moved to another module and changed there is one."""
    before, after = older.definitions, newer.definitions
    gone = [name for name in before if name not in after]
    come = [name for name in after if name not in before]
    units = [Unit(n, n) for n in before if n in after and before[n] != after[n]]
    for name in gone:
        same = [other for other in come if _tail(other) == _tail(name)]
        if len(same) == 1:
            come.remove(same[0])
            if before[name] != after[same[0]]:
                units.append(Unit(name, same[0]))
        else:
            units.append(Unit(name, None))
    units += [Unit(None, name) for name in come]
    files = sorted({*native[0], *native[1]})
    for path in files:
        if native[0].get(path) != native[1].get(path):
            units.append(Unit(path, path))
    return tuple(units)


def _tail(name: str) -> str:
    return name.rpartition(".")[2]


class Reverting:
    """Reverts units of the newer of two revisions."""

    def __init__(self, older: Source, newer: Source, pieces: tuple[Slice, Slice]) -> None:
        self._sources = (older, newer)
        self._pieces = pieces

    def without(self, units: Iterable[Unit]) -> Source:
        """The newer revision with ``units`` as in the older. Raises ValueError for what cannot be
        found in the text."""
        texts: dict[str, str | None] = {}
        for unit in units:
            if "/" in unit.name:
                texts[unit.name] = self._sources[0].read(unit.name)
            else:
                self._definition(unit, texts)
        return Overlay(self._sources[1], texts)

    def line(self, unit: Unit) -> str:
        """Where a unit stands in the newer revision (or stood in the older)."""
        if "/" in unit.name:
            return unit.name
        side = 1 if unit.newer is not None else 0
        path, symbol = self._split(unit.name, side)
        spans = spans_of(self._sources[side].read(path) or "", symbol)
        return f"{path}:{spans[0].first}" if spans else path

    def _definition(self, unit: Unit, texts: dict[str, str | None]) -> None:
        older = newer = None
        if unit.older is not None:
            older = self._split(unit.older, 0)
        if unit.newer is not None:
            newer = self._split(unit.newer, 1)
        path, symbol = newer or older or ("", "")
        if newer is None and not self._sources[1].exists(path):
            texts[path] = self._sources[0].read(path)
            return
        text = texts[path] if path in texts else self._sources[1].read(path)
        old = _taken(self._sources[0].read(older[0]) or "", older[1]) if older else []
        texts[path] = put_back(text or "", symbol, old)

    def _split(self, name: str, side: int) -> tuple[str, str]:
        """Path and symbol of a dotted name."""
        modules = {_module(path): path for path in self._pieces[side].files}
        parts = name.split(".")
        for size in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:size])
            if module in modules:
                return modules[module], ".".join(parts[size:])
        raise ValueError(f"{name} is in no file of the slice")


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@dataclass(frozen=True)
class Span:
    """Lines ``first`` to ``last`` (from 1), indented by ``column``."""

    first: int
    last: int
    column: int


def spans_of(text: str, symbol: str) -> list[Span]:
    """Where a module binds ``symbol`` (``name`` or ``Class.name``), in order."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    owner, _, member = symbol.rpartition(".")
    statements: Sequence[ast.stmt] = tree.body
    if owner:
        classes = [s for s in _flat(statements) if isinstance(s, ast.ClassDef) and s.name == owner]
        statements = [s for c in classes for s in c.body]
    return [_span(s) for s in _flat(statements) if member in _bound(s)]


def _flat(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a block and of the branches in it."""
    for statement in statements:
        yield statement
        for field in ("body", "orelse", "finalbody", "handlers"):
            if isinstance(statement, (ast.If, ast.Try, ast.With)):
                for inner in getattr(statement, field, ()):
                    yield from _flat(
                        inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                    )


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    targets: Sequence[ast.expr] = ()
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = (statement.target,)
    nodes = [node for target in targets for node in ast.walk(target)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _span(statement: ast.stmt) -> Span:
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    return Span(first, statement.end_lineno or statement.lineno, statement.col_offset)


def _taken(text: str, symbol: str) -> list[str]:
    """The texts of a symbol's definitions, without indentation."""
    rows = text.split("\n")
    spans = spans_of(text, symbol)
    if not spans:
        raise ValueError(f"no text of {symbol}")
    return [textwrap.dedent("\n".join(rows[s.first - 1 : s.last])) for s in spans]


def put_back(text: str, symbol: str, old: Sequence[str]) -> str:
    """``text`` with the definitions of ``symbol`` replaced by ``old``: removed where that is
    empty, added where there are none. Raises ValueError where their numbers differ otherwise."""
    rows = text.split("\n")
    spans = spans_of(text, symbol)
    if not spans:
        return _added(rows, text, symbol, old)
    if old and len(old) != len(spans):
        raise ValueError(f"{symbol} is defined {len(old)} times, then {len(spans)} times")
    for number in reversed(range(len(spans))):
        span = spans[number]
        new = old[number] if old else "pass"
        rows[span.first - 1 : span.last] = textwrap.indent(new, " " * span.column).split("\n")
    return "\n".join(rows)


def _added(rows: list[str], text: str, symbol: str, old: Sequence[str]) -> str:
    owner, _, _ = symbol.rpartition(".")
    if not owner:
        return "\n".join([*rows, *old, ""])
    places = spans_of(text, owner)
    if not places:
        raise ValueError(f"no class {owner} to put {symbol} back into")
    block = [textwrap.indent(item, " " * (places[0].column + 4)) for item in old]
    rows[places[0].last : places[0].last] = "\n".join(block).split("\n")
    return "\n".join(rows)
