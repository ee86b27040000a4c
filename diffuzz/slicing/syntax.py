"""Questions about single pieces of syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef)

# Decorators that never look at annotations, by the last part of their name.
PLAIN_DECORATORS = frozenset(
    {"staticmethod", "classmethod", "property", "setter", "getter", "cache", "lru_cache"}
    | {"cached_property", "wraps", "contextmanager", "abstractmethod", "overload", "override"}
    | {"final", "no_grad", "inference_mode", "dataclass", "total_ordering", "runtime_checkable"}
)


@dataclass(frozen=True, order=True)
class ImportedName:
    """One name of an import statement. ``name`` is None for ``import module``; ``bound`` is the
    name it binds; ``plain`` marks ``import a.b`` without ``as``, which binds ``a``. ``guarded``:
    an ImportError is caught around it."""

    module: str
    level: int
    name: str | None
    bound: str
    plain: bool = False
    guarded: bool = False


def dotted(node: ast.AST) -> tuple[str, ...] | None:
    """``a.b.c`` as a tuple, or None if ``node`` is not a chain from a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return tuple(reversed(parts))


def imported_names(node: ast.stmt, guarded: bool = False) -> list[ImportedName]:
    if isinstance(node, ast.ImportFrom):
        return [
            ImportedName(node.module or "", node.level, a.name, a.asname or a.name, guarded=guarded)
            for a in node.names
        ]
    if isinstance(node, ast.Import):
        return [
            ImportedName(
                a.name,
                0,
                None,
                a.asname or a.name.partition(".")[0],
                plain=a.asname is None,
                guarded=guarded,
            )
            for a in node.names
        ]
    return []


def type_checking(test: ast.expr) -> bool | None:
    """What a ``TYPE_CHECKING`` test says at run time (``False``, or ``True`` for its negation), or
    None for any other test."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = type_checking(test.operand)
        return None if inner is None else not inner
    chain = dotted(test)
    return False if chain is not None and chain[-1] == "TYPE_CHECKING" else None


def catches_import_error(node: ast.AST) -> bool:
    """Whether ``try`` or ``with suppress(...)`` swallows a failing import."""
    caught: list[ast.expr | None] = []
    if isinstance(node, ast.Try):
        caught = [h.type for h in node.handlers]
    elif isinstance(node, ast.With):
        calls = [i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call)]
        caught = [a for c in calls if (dotted(c.func) or ("",))[-1] == "suppress" for a in c.args]
    names: set[str] = set()
    for expr in caught:
        if expr is None:
            return True
        for part in expr.elts if isinstance(expr, ast.Tuple) else [expr]:
            names.add((dotted(part) or ("",))[-1])
    return bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def bound_in(statements: Iterable[ast.AST]) -> dict[str, ImportedName | None]:
    """Names the statements bind in their own scope, with the import that does it if one does."""
    bound: dict[str, ImportedName | None] = {}
    stack = list(statements)
    while stack:
        node = stack.pop()
        if isinstance(node, (*FunctionNode, ast.ClassDef)):
            bound[node.name] = None
            stack.extend(node.decorator_list)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for item in imported_names(node):
                bound.setdefault(item.bound, item)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] = None
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound[node.name] = None
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound[node.rest] = None
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            # Targets of a comprehension are its own; a walrus inside binds outside.
            walrus = [n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
            bound.update({t.id: None for t in walrus})
            continue
        stack.extend(ast.iter_child_nodes(node))
    return bound


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return found


def reads_annotations(decorators: Sequence[ast.expr]) -> bool:
    """Whether a decorator might look at annotations: any but the well-known plain ones."""
    for decorator in decorators:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (dotted(call) or ("",))[-1] not in PLAIN_DECORATORS:
            return True
    return False
