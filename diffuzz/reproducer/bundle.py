"""The part of diffuzz that a reproducer carries: the target's own code and what it imports.

Modules are followed by their import statements, from the target's ``run`` on, and renamed to
``case_code``, so that a reproducer neither needs nor meets an installed diffuzz.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from diffuzz import discovery
from diffuzz.errors import UsageError

PACKAGE = "case_code"
TARGET = "target_under_test"
_OWN = Path(__file__).resolve().parent.parent
_IMPORT = re.compile(r"^(\s*(?:from|import)\s+)diffuzz(?=[.\s])", re.MULTILINE)
# What a target states besides running: its answers are computed here and packed as data.
_NOT_CARRIED = {"inputs", "expected", "facts", "stand_ins"}
_ALLOWED = {"torch", "triton"}


def bundle(target: str, target_folders: tuple[str, ...], needed: tuple[str, ...]) -> dict[str, str]:
    """Path to text of everything ``target`` runs on, and the ``needed`` modules of diffuzz.

    Raises :class:`UsageError` for a target that imports what a bare environment does not have.
    """
    places = discovery.locate(target_folders)
    if target not in places:
        raise UsageError(f"{target} is an installed target: give its folder with --targets")
    closure = _Closure(places[target])
    closure.follow(f"{PACKAGE}.{TARGET}")
    for name in needed:
        closure.follow(f"{PACKAGE}.{name}")
    return closure.texts()


class _Closure:
    """Modules reached so far. A package of which only submodules are used stays empty."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._texts: dict[str, str] = {}

    def follow(self, module: str) -> None:
        if module in self._texts:
            return
        path = self._path(module)
        if path is None:
            raise UsageError(f"{module} is no module a reproducer can carry")
        text = path.read_text(encoding="utf-8")
        self._texts[module] = text
        is_target = module.split(".")[1] == TARGET
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for name, items in _imports(ast.parse(text), _NOT_CARRIED if is_target else set()):
            self._import(_absolute(name, package), items, path)

    def texts(self) -> dict[str, str]:
        """Path to text, with an empty ``__init__.py`` wherever a package needs one."""
        modules = dict(self._texts)
        for module in self._texts:
            parts = module.split(".")
            for depth in range(1, len(parts)):
                modules.setdefault(".".join(parts[:depth]), "")
        found = {}
        for module, text in sorted(modules.items()):
            below = any(other.startswith(f"{module}.") for other in modules)
            place = module.replace(".", "/")
            found[f"{place}/__init__.py" if below else f"{place}.py"] = _renamed(text)
        return found

    def _import(self, name: str, items: list[str], path: Path) -> None:
        if name.split(".")[0] == PACKAGE:
            whole = [item for item in items if self._path(f"{name}.{item}") is None]
            for item in items:
                if item not in whole:
                    self.follow(f"{name}.{item}")
            if whole or not items:
                self.follow(name)
        elif not _is_bare(name):
            raise UsageError(f"{path.name} imports {name}: a reproducer has torch and triton only")

    def _path(self, module: str) -> Path | None:
        parts = module.split(".")[1:]
        if not parts:
            return None
        if parts[0] == TARGET:
            if parts == [TARGET]:
                return self._target
            if self._target.name != "__init__.py":
                return None
            base = self._target.parent.joinpath(*parts[1:])
        else:
            base = _OWN.joinpath(*parts)
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
        return None


def _imports(tree: ast.AST, skipped: set[str]) -> Iterator[tuple[str, list[str]]]:
    """``(module, names)`` of the imports that run: not those for type checkers alone, nor those in
    functions called as in ``skipped``. Relative ones keep their leading points."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for other in node.orelse:
                yield from _imports(other, skipped)
        elif isinstance(node, ast.FunctionDef) and node.name in skipped:
            continue
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        else:
            yield from _imports(node, skipped)


def _absolute(name: str, package: str) -> str:
    level = len(name) - len(name.lstrip("."))
    if level == 0:
        return re.sub(r"^diffuzz(?=\.|$)", PACKAGE, name)
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - level + 1])
    return f"{base}.{name[level:]}" if name[level:] else base


def _is_bare(name: str) -> bool:
    import sys

    top = name.split(".")[0]
    return top in _ALLOWED or top in sys.stdlib_module_names


def _renamed(text: str) -> str:
    return _IMPORT.sub(rf"\1{PACKAGE}", text)
