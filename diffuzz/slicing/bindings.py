"""What module-level statements do to the module's names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from diffuzz.slicing.syntax import (
    FunctionNode,
    ImportedName,
    bound_in,
    catches_import_error,
    dotted,
    imported_names,
)

_Definition = (*FunctionNode, ast.ClassDef)


def touched(statements: Sequence[ast.stmt], assigned: frozenset[str]) -> frozenset[str]:
    """Names the statements bind, or change in place: assignment to an item or attribute, a method
    call on a name in ``assigned``, a decorator that is an attribute of it or of a function
    (``@op.register_fake``)."""
    if len(statements) == 1 and _bare_annotation(statements[0]):
        return frozenset()
    names = set(bound_in(statements))
    for node in _in_module_scope(statements):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(root for t in targets for root in _roots(t))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            chain = dotted(node.value.func)
            if chain and len(chain) > 1 and chain[0] in assigned:
                names.add(chain[0])
        elif isinstance(node, _Definition):
            for decorator in node.decorator_list:
                call = decorator.func if isinstance(decorator, ast.Call) else decorator
                chain = dotted(call)
                if chain and len(chain) == 2 and chain[1].startswith("register"):
                    names.add(chain[0])
    return frozenset(names)


def _bare_annotation(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is None


def _roots(target: ast.expr) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _roots(part)
    while isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)):
        target = target.value
    if isinstance(target, ast.Name):
        yield target.id


def _in_module_scope(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    stack: list[ast.AST] = list(statements)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (*_Definition, ast.expr)):
            stack.extend(ast.iter_child_nodes(node))


def imports_run(statements: Sequence[ast.stmt], guarded: bool = False) -> tuple[ImportedName, ...]:
    """Names imported when the statements run, and whether a failing import is caught."""
    found: list[ImportedName] = []
    for node in statements:
        found += imported_names(node, guarded)
        if isinstance(node, _Definition):
            continue
        caught = guarded or catches_import_error(node)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None) or []
            found += imports_run(inner, caught if name == "body" else guarded)
        for handler in getattr(node, "handlers", None) or []:
            found += imports_run(handler.body, guarded)
    return tuple(found)


def bound_otherwise(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Names the statements bind by something else than an import that may fail."""
    found: set[str] = {i.bound for i in imports_run(statements) if not i.guarded}
    for node in _in_module_scope(statements):
        if isinstance(node, _Definition):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(root for t in targets for root in _roots(t))
    return frozenset(found)


def op_registrations(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """``torch.ops.NAMESPACE.NAME`` for each operator the statements define in Python: by a call
    to ``direct_register_custom_op`` or the decorator ``custom_op``."""
    found: set[str] = set()
    for node in _in_module_scope(statements):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = _op_name(node.value, "register_custom_op")
            if name:
                found.add(f"torch.ops.vllm.{name}")
        elif isinstance(node, FunctionNode):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):
                    name = _op_name(decorator, "custom_op")
                    if name and "::" in name:
                        found.add("torch.ops." + name.replace("::", "."))
    return frozenset(found)


def _op_name(call: ast.Call, ending: str) -> str | None:
    if not (dotted(call.func) or ("",))[-1].endswith(ending):
        return None
    given = [k.value for k in call.keywords if k.arg == "op_name"] + call.args[:1]
    if given and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
        return given[0].value
    return None
