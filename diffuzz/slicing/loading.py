"""Importing a written slice into the current process, with vLLM's own module names.

Only the slice's modules exist under these names: an installed vLLM is never fallen back to. The
annotations that nobody reads become strings, because the slice does not hold what they name.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
from collections.abc import Collection, Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from diffuzz.errors import SourceUnavailable
from diffuzz.slicing.result import MANIFEST
from diffuzz.slicing.syntax import all_arguments, reads_annotations


class NotInSlice(ModuleNotFoundError):
    """Code of the slice asked, while running, for a module the slice does not hold. That says
    nothing about the kernel: its outcome is unknown."""


class _SliceLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, annotated: Collection[int]) -> None:
        super().__init__(fullname, path)
        self.annotated = annotated

    def get_code(self, fullname: str) -> CodeType:
        # Straight from the text: compiled files beside it would not have lost their annotations.
        path = self.get_filename(fullname)
        tree = _Unread(self.annotated).visit(ast.parse(self.get_data(path), path))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code


class _Unread(ast.NodeTransformer):
    """Turns annotations into strings, but for functions and fields of classes whose decorators may
    read them, and for functions on the lines ``annotated``."""

    def __init__(self, annotated: Collection[int]) -> None:
        self.annotated = annotated
        self.live = False
        self.in_class = False

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        before = self.live, self.in_class
        read = node.lineno in self.annotated or reads_annotations(node.decorator_list)
        self.live, self.in_class = read or (self.live and not self.in_class), False
        if not self.live:
            node.returns = _spelled(node.returns)
            for argument in all_arguments(node.args):
                argument.annotation = _spelled(argument.annotation)
        self.generic_visit(node)
        self.live, self.in_class = before
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        before = self.live, self.in_class
        self.live, self.in_class = reads_annotations(node.decorator_list), True
        self.generic_visit(node)
        self.live, self.in_class = before
        return node

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if not self.live:
            node.annotation = _spelled(node.annotation) or node.annotation
        return node


def _spelled(annotation: ast.expr | None) -> ast.expr | None:
    if annotation is None:
        return None
    return ast.copy_location(ast.Constant(ast.unparse(annotation)), annotation)


class _SliceFinder(MetaPathFinder):
    def __init__(self, directory: Path, manifest: Mapping[str, Any]) -> None:
        self.directory = directory
        self.modules: Mapping[str, str] = manifest["modules"]
        self.annotated: Mapping[str, Collection[int]] = manifest["annotated"]
        self.owned = {name.partition(".")[0] for name in self.modules}
        absent: list[str] = manifest["absent"]
        self.absent = set(absent)
        self.absent_packages = {name.partition(".")[0] for name in absent} - self.owned

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self.modules:
            file = str(self.directory / self.modules[fullname])
            below = [str(Path(file).parent)] if file.endswith("__init__.py") else None
            return importlib.util.spec_from_file_location(
                fullname,
                file,
                loader=_SliceLoader(fullname, file, self.annotated.get(self.modules[fullname], ())),
                submodule_search_locations=below,
            )
        top = fullname.partition(".")[0]
        if fullname in self.absent or top in self.absent_packages:
            raise ModuleNotFoundError(f"{fullname} is absent here", name=fullname)
        if top in self.owned:
            raise NotInSlice(f"missing {fullname} (imported while running)", name=fullname)
        return None


def unload() -> None:
    """Forget a slice loaded earlier in this process."""
    for finder in [f for f in sys.meta_path if isinstance(f, _SliceFinder)]:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.partition(".")[0] in finder.owned]:
            del sys.modules[name]


def load(directory: Path) -> dict[str, Any]:
    """Entry name to object, imported from a slice written to ``directory``.

    Methods come as plain functions (class methods bound to their class), to be called with whatever
    the target gives as ``self``. A slice loaded before is forgotten. Raises whatever vLLM's own
    module code raises, and :class:`SourceUnavailable` where no slice was written.
    """
    directory = directory.resolve()
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceUnavailable(f"no slice in {directory}: {error}") from None
    unload()
    finder = _SliceFinder(directory, manifest)
    for name in [n for n in sys.modules if n.partition(".")[0] in finder.owned]:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    return {
        name: _object(importlib.import_module(module), symbol)
        for name, (module, symbol) in manifest["entries"].items()
    }


def _object(module: ModuleType, symbol: str) -> Any:
    first, _, method = symbol.partition(".")
    found = getattr(module, first)
    if not method:
        return found
    raw = vars(found)[method]
    if isinstance(raw, staticmethod):
        return raw.__func__
    if isinstance(raw, classmethod):
        return getattr(found, method)
    return raw.fget if isinstance(raw, property) else raw
