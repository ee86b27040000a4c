"""Which global names a statement needs when it runs, with Python's scoping rules.

A *use* is a dotted chain from a global name (``ops.scaled_mm``): what the first part is bound to
decides how far the chain is followed. Annotations and ``TYPE_CHECKING`` blocks are not uses, with
two exceptions: a decorator may read the annotations of what it decorates (``triton.jit`` does),
and a dataclass looks for ``ClassVar`` and ``InitVar`` in the annotations of its fields.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from diffuzz.slicing.syntax import (
    FunctionNode,
    ImportedName,
    all_arguments,
    bound_in,
    catches_import_error,
    dotted,
    imported_names,
    reads_annotations,
    type_checking,
)

Need = Literal["must", "may", "typing"]


@dataclass(frozen=True)
class Use:
    """A dotted chain that must resolve (``must``), may be absent (``may``: ``hasattr``, ``getattr``
    with a default), or matters only if it comes from ``typing`` (``typing``: fields). ``through``:
    the import inside a function that binds its first part. ``outer``: evaluated when the statement
    itself runs, not when a function in it is called."""

    chain: tuple[str, ...]
    need: Need = "must"
    through: ImportedName | None = None
    outer: bool = False


@dataclass(frozen=True)
class Needs:
    """Everything a statement needs: its uses, and the imports it runs itself."""

    uses: tuple[Use, ...]
    imports: tuple[ImportedName, ...]


@dataclass
class _Scope:
    kind: Literal["unit", "class", "function"]
    bound: dict[str, ImportedName | None]
    outside: frozenset[str] = frozenset()


class _Finder(ast.NodeVisitor):
    def __init__(self) -> None:
        self.scopes: list[_Scope] = [_Scope("unit", {})]
        self.uses: dict[Use, None] = {}
        self.imports: dict[ImportedName, None] = {}
        self.live = False
        self.guarded = False
        self.need: Need = "must"

    # Names ---------------------------------------------------------------------------------

    def _add(self, chain: tuple[str, ...], need: Need | None = None) -> None:
        root = chain[0]
        need = need or self.need
        outer = all(s.kind != "function" for s in self.scopes)
        for depth, scope in enumerate(reversed(self.scopes)):
            if scope.kind == "class" and depth > 0:
                continue  # names of a class body are invisible in its methods
            if root in scope.outside:
                break
            if root in scope.bound:
                through = scope.bound[root]
                if through is not None:
                    self.uses[Use(chain, need, through, outer)] = None
                return
        self.uses[Use(chain, need, None, outer)] = None

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._add((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = dotted(node)
        if chain is None:
            self.generic_visit(node)
        else:
            self._add(chain)

    def visit_Call(self, node: ast.Call) -> None:
        chain = dotted(node.args[0]) if node.args else None
        asks = isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
        if asks and chain and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            sure = len(node.args) == 2 and isinstance(node.func, ast.Name)
            sure = sure and node.func.id == "getattr"  # type: ignore[attr-defined]
            self._add((*chain, str(node.args[1].value)), "must" if sure else "may")
            for extra in node.args[2:]:
                self.visit(extra)
            return
        self.generic_visit(node)

    # Imports and conditions ----------------------------------------------------------------

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for item in imported_names(node, self.guarded):
            self.imports[item] = None

    visit_ImportFrom = visit_Import

    def visit_If(self, node: ast.If) -> None:
        known = type_checking(node.test)
        self.visit(node.test)
        for statement in node.body if known is not False else []:
            self.visit(statement)
        for statement in node.orelse if known is not True else []:
            self.visit(statement)

    def visit_Try(self, node: ast.Try) -> None:
        before = self.guarded
        self.guarded = before or catches_import_error(node)
        for statement in node.body:
            self.visit(statement)
        self.guarded = before
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)

    def visit_With(self, node: ast.With) -> None:
        before = self.guarded
        self.guarded = before or catches_import_error(node)
        self.generic_visit(node)
        self.guarded = before

    # Annotations ---------------------------------------------------------------------------

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if self.live:
            self.visit(node.annotation)
        elif self.scopes[-1].kind == "class":
            before, self.need = self.need, "typing"
            self.visit(node.annotation)
            self.need = before
        if node.value is not None:
            self.visit(node.value)

    # Scopes --------------------------------------------------------------------------------

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        before = self.live
        inherited = before and self.scopes[-1].kind != "class"
        self.live = inherited or reads_annotations(node.decorator_list)
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        if self.live:
            for annotation in (*(a.annotation for a in all_arguments(arguments)), node.returns):
                if annotation is not None:
                    self.visit(annotation)
        self._enter("function", arguments, node.body)
        self.live = before

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._enter("function", node.args, [node.body])

    def _enter(
        self,
        kind: Literal["class", "function"],
        arguments: ast.arguments | None,
        body: Sequence[ast.AST],
    ) -> None:
        bound = bound_in(body)
        if arguments is not None:
            bound.update({a.arg: None for a in all_arguments(arguments)})
        outside: set[str] = set()
        for node in _own_statements(body):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                for name in node.names:
                    bound.pop(name, None)
                if isinstance(node, ast.Global):
                    outside.update(node.names)
        if kind == "function":
            bound.setdefault("__class__", None)
        self.scopes.append(_Scope(kind, bound, frozenset(outside)))
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self._add((name,))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.visit(part)
        before, self.live = self.live, reads_annotations(node.decorator_list)
        self._enter("class", None, node.body)
        self.live = before

    def _comprehension(self, node: ast.AST) -> None:
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        self.visit(generators[0].iter)
        bound = bound_in([g.target for g in generators])
        self.scopes.append(_Scope("function", bound))
        for i, generator in enumerate(generators):
            if i > 0:
                self.visit(generator.iter)
            for condition in generator.ifs:
                self.visit(condition)
        for field in ("elt", "key", "value"):
            part = getattr(node, field, None)
            if part is not None:
                self.visit(part)
        self.scopes.pop()

    visit_ListComp = _comprehension
    visit_SetComp = _comprehension
    visit_DictComp = _comprehension
    visit_GeneratorExp = _comprehension


def _own_statements(body: Sequence[ast.AST]) -> Iterable[ast.AST]:
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*FunctionNode, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))


def needs_of(node: ast.AST) -> Needs:
    """What ``node`` (a statement, or the test of a condition) needs, in a stable order."""
    finder = _Finder()
    finder.visit(node)
    uses = sorted(finder.uses, key=lambda u: (u.chain, u.need, u.outer, repr(u.through)))
    return Needs(tuple(uses), tuple(finder.imports))
