"""One parsed module: its top-level statements as *units*, what each binds, needs and means.

A module is parsed once per content, however many revisions hold it; what a unit needs and means is
worked out when a slice first asks for it. Nothing here knows the module's path or name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from diffuzz.slicing.bindings import (
    bound_otherwise,
    imports_run,
    op_registrations,
    touched,
)
from diffuzz.slicing.names import Needs, Use, needs_of
from diffuzz.slicing.normal import digest, parameters_of
from diffuzz.slicing.syntax import FunctionNode, ImportedName, all_arguments, dotted, type_checking

Position = tuple[int, int]
"""Line, from 1, and byte column, from 0."""

Kind = Literal["function", "class", "import", "other"]
Branch = tuple[int, bool]
"""A condition by its index, and whether its body (or else its ``else`` part) is meant."""

# Decorators that promise to change speed or tracing but not what a call computes: compiling,
# capturing graphs, spans. They are left out of slices and of hashes, because they would drag in
# machinery that has nothing to do with the kernel. Every other decorator is kept and must resolve
# like any other name, so that one that matters is never lost.
TRANSPARENT_DECORATORS = (
    "torch.compile",
    "torch.compiler.",
    "torch._dynamo.",
    "torch.cuda.nvtx.",
    "vllm.compilation.",
    "vllm.tracing.",
)


class Unparsable(Exception):
    """The module is not valid Python here; the message says where."""


@dataclass(frozen=True)
class Span:
    start: Position
    end: Position


@dataclass(frozen=True)
class Facts:
    """What a unit needs and means. ``dropped``: where decorators that are left out stand; ``own``:
    attributes a function takes from its first parameter, "" if it passes the parameter on."""

    needs: Needs
    digest: str
    dropped: tuple[Span, ...] = ()
    own: tuple[str, ...] = ()


@dataclass
class Unit:
    """A statement that is kept or dropped as a whole.

    ``names`` it binds or changes; ``imports`` it runs in the module's scope, ``rebinds`` the names
    it binds in another way as well; ``branch`` the condition it stands under. Classes list their
    ``members``, which are units of their own (``owner`` is then the class); ``plain_class`` has
    neither bases nor decorators, so that members can be taken out. ``flavour``: ``staticmethod``,
    ``classmethod`` or nothing.
    """

    index: int
    span: Span
    kind: Kind
    names: frozenset[str]
    imports: tuple[ImportedName, ...] = ()
    rebinds: frozenset[str] = frozenset()
    branch: Branch | None = None
    owner: int | None = None
    members: dict[str, list[int]] = field(default_factory=dict)
    plain_class: bool = False
    definition: Position = (0, 0)
    flavour: str = ""
    parameters: list[tuple[str, str, str | None]] | None = None


@dataclass
class Condition:
    """A module-level ``if``. ``known``: its value at run time where ``TYPE_CHECKING`` decides."""

    index: int
    span: Span
    test: Span
    branch: Branch | None
    known: bool | None
    body: list[Unit | Condition] = field(default_factory=list)
    orelse: list[Unit | Condition] = field(default_factory=list)
    body_span: Span = Span((0, 0), (0, 0))
    orelse_span: Span | None = None


def start_of(node: ast.stmt) -> Position:
    """Where a statement starts, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    line = min([node.lineno, *(d.lineno for d in decorators)])
    return (line, node.col_offset)


def end_of(node: ast.stmt | ast.expr) -> Position:
    return (node.end_lineno or node.lineno, node.end_col_offset or 0)


class ParsedModule:
    """Units of one file and where names are bound."""

    def __init__(self, text: str) -> None:
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        try:
            self.lines = text.encode("utf-8").split(b"\n")
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise Unparsable(f"line {getattr(error, 'lineno', 0)}: {error.args[0]}") from None
        self.units: list[Unit] = []
        self.conditions: list[Condition] = []
        self.bindings: dict[str, list[int]] = {}
        self.star_imports: list[int] = []
        self._facts: dict[tuple[str, int], Facts] = {}
        self._imports: dict[str, ImportedName] = {}
        self._assigned = _assigned_names(tree)
        self.blocks = self._block(tree.body, None)

    # Building --------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], branch: Branch | None) -> list[Unit | Condition]:
        blocks: list[Unit | Condition] = []
        for group in _same_line_groups(body):
            first = group[0]
            if len(group) == 1 and isinstance(first, ast.If):
                blocks.append(self._condition(first, branch))
            else:
                blocks.append(self._unit(group, branch))
        return blocks

    def _condition(self, node: ast.If, branch: Branch | None) -> Condition:
        index = len(self.conditions)
        test = Span((node.test.lineno, node.test.col_offset), end_of(node.test))
        span = Span(start_of(node), end_of(node))
        condition = Condition(index, span, test, branch, type_checking(node.test))
        self.conditions.append(condition)
        condition.body = self._block(node.body, (index, True))
        condition.body_span = Span(start_of(node.body[0]), end_of(node.body[-1]))
        if node.orelse:
            condition.orelse = self._block(node.orelse, (index, False))
            condition.orelse_span = Span(start_of(node.orelse[0]), end_of(node.orelse[-1]))
        return condition

    def _unit(self, group: Sequence[ast.stmt], branch: Branch | None) -> Unit:
        node = group[0]
        names = touched(group, self._assigned) | op_registrations(group)
        span = Span(start_of(node), end_of(group[-1]))
        imports = imports_run(group)
        rebinds = bound_otherwise(group)
        unit = Unit(len(self.units), span, "other", names, imports, rebinds, branch)
        self.units.append(unit)
        if len(group) == 1:
            self._describe(unit, node)
        if not self._typing_only(branch):
            for name in names:
                self.bindings.setdefault(name, []).append(unit.index)
            for item in imports:
                self._imports.setdefault(item.bound, item)
                if item.name == "*":
                    self.star_imports.append(unit.index)
        return unit

    def _typing_only(self, branch: Branch | None) -> bool:
        while branch is not None:
            condition = self.conditions[branch[0]]
            if condition.known is not None and condition.known is not branch[1]:
                return True
            branch = condition.branch
        return False

    def _describe(self, unit: Unit, node: ast.stmt) -> None:
        unit.definition = (node.lineno, node.col_offset)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            unit.kind = "import"
        elif isinstance(node, FunctionNode):
            unit.kind = "function"
            unit.parameters = parameters_of(node)
        elif isinstance(node, ast.ClassDef):
            unit.kind = "class"
            unit.plain_class = not node.keywords and not node.decorator_list
            unit.plain_class &= all(dotted(b) == ("object",) for b in node.bases)
            for group in _same_line_groups(node.body):
                self._member(unit, group)

    def _member(self, owner: Unit, group: Sequence[ast.stmt]) -> None:
        node = group[0]
        names = touched(group, frozenset())
        member = Unit(len(self.units), Span(start_of(node), end_of(group[-1])), "other", names)
        member.owner = owner.index
        self.units.append(member)
        if len(group) == 1 and isinstance(node, FunctionNode):
            member.kind = "function"
            member.definition = (node.lineno, node.col_offset)
            member.parameters = parameters_of(node)
            flavours = {(dotted(d) or ("",))[-1] for d in node.decorator_list}
            for flavour in ("staticmethod", "classmethod"):
                if flavour in flavours:
                    member.flavour = flavour
        for name in names:
            owner.members.setdefault(name, []).append(member.index)

    # Asking ----------------------------------------------------------------------------------

    def facts(self, unit: Unit) -> Facts:
        return self._facts_of("unit", unit.index, unit.span)

    def annotations(self, unit: Unit) -> tuple[Use, ...]:
        """What a function's annotations name, for the few places that read them at run time."""
        node = self._parse_again(unit.span, False)[0][0]
        assert isinstance(node, FunctionNode)
        read = [a.annotation for a in all_arguments(node.args)] + [node.returns]
        block = ast.Module([ast.Expr(a) for a in read if a is not None], type_ignores=[])
        return needs_of(block).uses

    def test_facts(self, condition: Condition) -> Facts:
        return self._facts_of("test", condition.index, condition.test)

    def _facts_of(self, what: str, index: int, span: Span) -> Facts:
        found = self._facts.get((what, index))
        if found is None:
            found = self._facts[what, index] = self._work_out(span, what == "test")
        return found

    def _work_out(self, span: Span, expression: bool) -> Facts:
        statements, shift = self._parse_again(span, expression)
        block = ast.Module(body=statements, type_ignores=[])
        dropped: list[Span] = []
        for node in ast.walk(block):
            if isinstance(node, (*FunctionNode, ast.ClassDef)):
                gone = [d for d in node.decorator_list if not self._keeps(d)]
                node.decorator_list = [d for d in node.decorator_list if self._keeps(d)]
                for decorator in gone:
                    line, column = end_of(decorator)
                    start = (decorator.lineno + shift, node.col_offset)
                    dropped.append(Span(start, (line + shift, column)))
        needs = needs_of(block)
        own = _own_attributes(statements[0])
        return Facts(needs, digest(block), tuple(dropped), own)

    def _parse_again(self, span: Span, expression: bool) -> tuple[list[ast.stmt], int]:
        """The statements of a span, and what to add to their line numbers."""
        text = "\n".join(self.text(span))
        if expression:
            return ast.parse(f"(\n{text}\n)").body, span.start[0] - 2
        if span.start[1] == 0:
            return ast.parse(text).body, span.start[0] - 1
        wrapped = ast.parse("if 1:\n" + " " * span.start[1] + text).body[0]
        assert isinstance(wrapped, ast.If)
        return wrapped.body, span.start[0] - 2

    def text(self, span: Span) -> Iterator[str]:
        """Source of a span, line by line; the first line starts at the span."""
        (first, column), (last, end) = span.start, span.end
        for number in range(first, last + 1):
            line = self.lines[number - 1]
            line = line[: end if number == last else len(line)]
            yield (line[column:] if number == first else line).decode("utf-8")

    def _keeps(self, decorator: ast.expr) -> bool:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        chain = dotted(call)
        if chain is None:
            return True
        name = self.canonical(chain)
        return not any(
            name.startswith(t) if t.endswith(".") else name == t for t in TRANSPARENT_DECORATORS
        )

    def canonical(self, chain: tuple[str, ...]) -> str:
        """The chain with its first part replaced by what the module imports under that name."""
        item = self._imports.get(chain[0])
        if item is None or item.plain or item.level:
            return ".".join(chain)
        root = item.module if item.name is None else f"{item.module}.{item.name}"
        return ".".join((root, *chain[1:]))


def _own_attributes(node: ast.stmt) -> tuple[str, ...]:
    if not isinstance(node, FunctionNode) or not node.args.args:
        return ()
    first = node.args.args[0].arg
    found: set[str] = set()
    inner: set[int] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and dotted(part.value) == (first,):
            found.add(part.attr)
            inner.add(id(part.value))
        elif isinstance(part, ast.Name) and part.id == first and id(part) not in inner:
            found.add("")
    return tuple(sorted(found))


def _same_line_groups(body: Sequence[ast.stmt]) -> list[list[ast.stmt]]:
    """Statements, those joined by semicolons together: they can only be kept together."""
    groups: list[list[ast.stmt]] = []
    for node in body:
        if groups and groups[-1][-1].end_lineno == node.lineno:
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def _assigned_names(tree: ast.Module) -> frozenset[str]:
    """Names bound by assignment, anywhere at module level: objects that later calls may change."""
    found: set[str] = set()
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (*FunctionNode, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        stack.extend(ast.iter_child_nodes(node))
    return frozenset(found)
