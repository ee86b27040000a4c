"""The meaning of a statement as a digest: what is left once comments, formatting, docstrings,
annotations nobody reads and the spelling of imports are gone."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from diffuzz.slicing.syntax import all_arguments, imported_names, reads_annotations, type_checking

_SKIPPED_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_FIELD_MARKERS = ("ClassVar", "InitVar", "KW_ONLY")


class _Normalise(ast.NodeTransformer):
    def __init__(self) -> None:
        self.live = False
        self.in_class = False

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        live, in_class = self.live, self.in_class
        self.live = (live and not in_class) or reads_annotations(node.decorator_list)
        self.in_class = False
        if not self.live:
            node.returns = None
            for argument in all_arguments(node.args):
                argument.annotation = None
        self.generic_visit(node)
        self.live, self.in_class = live, in_class
        return node

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        live, in_class = self.live, self.in_class
        self.live, self.in_class = reads_annotations(node.decorator_list), True
        self.generic_visit(node)
        self.live, self.in_class = live, in_class
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        if self.live:
            return node
        if self.in_class:
            # A field exists because it is annotated; what with matters only for these.
            text = ast.unparse(node.annotation)
            marker = next((m for m in _FIELD_MARKERS if m in text), "")
            node.annotation = ast.Constant(marker)
            return node
        if node.value is None:
            return None
        return ast.Assign(targets=[node.target], value=node.value)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant):
            return None
        return self.generic_visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_If(self, node: ast.If) -> Any:
        known = type_checking(node.test)
        if known is None:
            return self.generic_visit(node)
        chosen = node.body if known else node.orelse
        visited: list[Any] = [self.visit(s) for s in chosen]
        flat: list[Any] = []
        for item in visited:
            flat.extend(item if isinstance(item, list) else [item])
        return [s for s in flat if s is not None]

    def _import(self, node: ast.Import | ast.ImportFrom) -> ast.AST:
        bound = sorted(item.bound for item in imported_names(node))
        return ast.Import(names=[ast.alias(name=name) for name in bound])

    visit_Import = _import
    visit_ImportFrom = _import


def digest(node: ast.AST) -> str:
    """Digest of ``node``, which is changed on the way."""
    normal = _Normalise().visit(node)
    hasher = hashlib.sha256()
    for part in _dump(normal):
        hasher.update(part.encode("utf-8", "backslashreplace"))
        hasher.update(b"\0")
    return hasher.hexdigest()


def _dump(value: Any) -> Iterator[str]:
    """Like ``ast.dump``, but equal on every Python version: empty fields are left out."""
    if isinstance(value, ast.AST):
        yield f"({type(value).__name__}"
        for name in value._fields:
            field = getattr(value, name, None)
            if name not in _SKIPPED_FIELDS and field is not None and field != []:
                yield f".{name}"
                yield from _dump(field)
        yield ")"
    elif isinstance(value, list):
        yield "["
        for item in value:
            yield from _dump(item)
        yield "]"
    else:
        yield repr(value)


def parameters_of(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> list[tuple[str, str, str | None]]:
    """``(name, kind, default)`` of each parameter, ``kind`` as :class:`inspect.Parameter` names it
    and ``default`` as source text."""
    arguments = node.args
    plain: Sequence[ast.arg] = (*arguments.posonlyargs, *arguments.args)
    missing = len(plain) - len(arguments.defaults)
    found: list[tuple[str, str, str | None]] = []
    for i, argument in enumerate(plain):
        kind = "POSITIONAL_ONLY" if i < len(arguments.posonlyargs) else "POSITIONAL_OR_KEYWORD"
        default = ast.unparse(arguments.defaults[i - missing]) if i >= missing else None
        found.append((argument.arg, kind, default))
    if arguments.vararg:
        found.append((arguments.vararg.arg, "VAR_POSITIONAL", None))
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((argument.arg, "KEYWORD_ONLY", None if value is None else ast.unparse(value)))
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, "VAR_KEYWORD", None))
    return found
