"""What a capability flag of real classes can be at a revision, read without importing them.

A flag such as a backend's ``supports_...`` attribute is set in a class body, or on ``self`` in a
constructor, possibly of a base class in another file. Classes are found by their header lines and
parsed one by one, and only where the flag can be met, so that hundreds of files cost little.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from diffuzz.slicing.syntax import FunctionNode, dotted
from diffuzz.sources import Source

Flag = bool | Literal["conditional"]

_CLASS = re.compile(r"^([ \t]*)class[ \t]+(\w+)[ \t]*(?:\((.*?)\))?[ \t]*:", re.M | re.S)


@dataclass(frozen=True)
class FlagValue:
    """What an instance's attribute is once it is constructed. ``path`` and ``line`` say where that
    was decided last; ``set_by`` names the class that decides, a base class if it is inherited."""

    value: Flag
    path: str
    line: int
    set_by: str

    def __str__(self) -> str:
        return f"{self.value} at {self.path}:{self.line}"


def class_flags(source: Source, attribute: str, prefixes: Sequence[str]) -> dict[str, FlagValue]:
    """The value of ``attribute`` for every class under the folders ``prefixes`` that has it, own
    or inherited, by class name (``path:name`` from the second class of a name on).

    Bases are found by name, those in the same file first. The nearest definition in a class body
    counts; an assignment in a constructor wins over it, the derived class's last, and a base's
    only if its constructor is called. An assignment under a condition, from an expression or
    outside constructors makes the flag ``"conditional"`` unless all ways agree.
    """
    table = _Table(attribute)
    for prefix in prefixes:
        for path in source.list(prefix):
            if path.endswith(".py"):
                table.add(path, source.read(path) or "")
    flags: dict[str, FlagValue] = {}
    for found in table.classes:
        value = table.value(found)
        if value is not None:
            name = found.name if found.name not in flags else f"{found.path}:{found.name}"
            flags[name] = value
    return flags


@dataclass(frozen=True)
class _Way:
    """One value the attribute may have, and where it is given; ``value`` None: not known."""

    value: bool | None
    path: str
    line: int
    set_by: str


@dataclass(eq=False)
class _Class:
    name: str
    path: str
    bases: tuple[str, ...]
    text: str
    line: int

    @cached_property
    def body(self) -> list[ast.stmt]:
        """Statements of the class, empty where it cannot be parsed here."""
        try:
            tree = ast.parse("if 1:\n" + self.text if self.text[:1].isspace() else self.text)
        except SyntaxError:
            return []
        found = next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)), None)
        if found is None:
            return []
        ast.increment_lineno(found, self.line - found.lineno)
        return found.body


class _Table:
    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self.classes: list[_Class] = []
        self._named: dict[str, list[_Class]] = {}
        self._constructed: dict[_Class, tuple[_Way, ...]] = {}

    def add(self, path: str, text: str) -> None:
        for match in _CLASS.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            bases = tuple(_base_names(match.group(3) or ""))
            block = _block(text, match.start(), len(match.group(1)), match.end())
            found = _Class(match.group(2), path, bases, block, line)
            self.classes.append(found)
            self._named.setdefault(found.name, []).append(found)

    def value(self, found: _Class) -> FlagValue | None:
        ways = self._constructed_ways(found)
        unset = not ways or any(way is _UNSET for way in ways)
        ways = tuple(way for way in ways if way is not _UNSET)
        if unset:
            ways = (*self._class_ways(found), *ways)
        if not ways:
            return None
        values = {way.value for way in ways}
        last = ways[-1]
        value: Flag = "conditional"
        if len(values) == 1 and last.value is not None:
            value = last.value
        return FlagValue(value, last.path, last.line, last.set_by)

    def _bases(self, found: _Class) -> Iterator[_Class]:
        for name in found.bases:
            named = [c for c in self._named.get(name, ()) if c is not found]
            if named:
                yield next((c for c in named if c.path == found.path), named[0])

    def _class_ways(self, found: _Class, seen: frozenset[int] = frozenset()) -> tuple[_Way, ...]:
        """The nearest class body that sets the attribute."""
        if id(found) in seen:
            return ()
        if self.attribute in found.text:
            own = [w for node in found.body for w in self._assigned(found, node, None)]
            if own:
                return (own[-1],)
        for base in self._bases(found):
            ways = self._class_ways(base, seen | {id(found)})
            if ways:
                return ways
        return ()

    def _constructed_ways(self, found: _Class) -> tuple[_Way, ...]:
        """Ways the attribute may have been set on ``self``; ``_UNSET`` among them if it may not
        have been, and none if no constructor sets it."""
        if found not in self._constructed:
            self._constructed[found] = ()  # ends circles of names
            self._constructed[found] = self._construct(found)
        return self._constructed[found]

    def _construct(self, found: _Class) -> tuple[_Way, ...]:
        inherited: tuple[_Way, ...] = ()
        for base in self._bases(found):
            inherited = self._constructed_ways(base)
            if inherited:
                break
        if not inherited and self.attribute not in found.text:
            return ()
        methods = [n for n in found.body if isinstance(n, FunctionNode) and n.args.args]
        constructor = next((m for m in methods if m.name == "__init__"), None)
        ways = inherited
        if constructor is not None:
            ways = inherited if _calls_base(constructor) else ()
            ways = self._after(found, constructor.body, constructor.args.args[0].arg, ways)
        for method in methods:
            if method is not constructor and self.attribute in found.text:
                own = method.args.args[0].arg
                later = [w for n in ast.walk(method) for w in self._assigned(found, n, own)]
                ways = (*(ways or ((_UNSET,) if later else ())), *later)
        return ways

    def _after(
        self, found: _Class, body: Sequence[ast.stmt], own: str, ways: tuple[_Way, ...]
    ) -> tuple[_Way, ...]:
        """``ways`` once the statements have run: a plain assignment replaces them, one inside
        another statement adds to them."""
        for statement in body:
            direct = tuple(self._assigned(found, statement, own))
            if direct:
                ways = direct
                continue
            if isinstance(statement, ast.If):
                taken = self._after(found, statement.body, own, ways)
                other = self._after(found, statement.orelse, own, ways)
                if taken is not ways or other is not ways:
                    ways = tuple(dict.fromkeys((*(other or (_UNSET,)), *(taken or (_UNSET,)))))
                continue
            inner = [w for n in ast.walk(statement) for w in self._assigned(found, n, own)]
            if inner:
                ways = (*(ways or (_UNSET,)), *inner)
        return ways

    def _assigned(self, found: _Class, node: ast.AST, own: str | None) -> Iterator[_Way]:
        """Assignments to the attribute: of ``own`` (``self``), or as a plain name in the class."""
        wanted = (self.attribute,) if own is None else (own, self.attribute)
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            targets = [node.target]
        if not any(dotted(t) == wanted for t in targets):
            return
        given = getattr(node, "value", None)
        if given is None:
            return  # an annotation without a value
        known = isinstance(given, ast.Constant) and isinstance(given.value, bool)
        value = given.value if known and not isinstance(node, ast.AugAssign) else None
        yield _Way(value, found.path, getattr(node, "lineno", found.line), found.name)


_UNSET = _Way(None, "", 0, "")


def _block(text: str, start: int, indent: int, header_end: int) -> str:
    """The class at ``start``: up to the next line that is indented no deeper."""
    after = re.compile(rf"^[ \t]{{0,{indent}}}[^\s#]", re.M).search(text, header_end)
    return text[start : after.start() if after else len(text)]


def _base_names(bases: str) -> Iterator[str]:
    """Last parts of the names between a class header's brackets, keywords left out."""
    flat = re.sub(r"#.*", "", bases)
    while "[" in flat:
        shorter = re.sub(r"\[[^\[\]]*\]", "", flat)
        if shorter == flat:
            break
        flat = shorter
    for part in flat.split(","):
        if part.strip() and "=" not in part:
            yield part.strip().split(".")[-1]


def _calls_base(constructor: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether ``super().__init__`` or ``Base.__init__`` is called in it."""
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "__init__"
        for n in ast.walk(constructor)
    )
