"""Importing a written slice into the current process, with vLLM's own module names.

Only the slice's modules exist under these names: an installed vLLM is never fallen back to. The
files are compiled with postponed annotations, whatever they say themselves, because the slice
does not hold what annotations name.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from diffuzz.errors import SourceUnavailable
from diffuzz.slicing.result import MANIFEST

_ANNOTATIONS: int = importlib.import_module("__future__").annotations.compiler_flag


class NotInSlice(ModuleNotFoundError):
    """Code of the slice asked, while running, for a module the slice does not hold. That says
    nothing about the kernel: its outcome is unknown."""


class _SliceLoader(SourceFileLoader):
    def source_to_code(  # type: ignore[override]
        self, data: Any, path: Any, *, _optimize: int = -1
    ) -> CodeType:
        code: CodeType = compile(
            data, path, "exec", flags=_ANNOTATIONS, dont_inherit=True, optimize=_optimize
        )
        return code

    def get_code(self, fullname: str) -> CodeType:
        # Straight from the text: compiled files beside it would ignore the flags above.
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _SliceFinder(MetaPathFinder):
    def __init__(self, directory: Path, modules: Mapping[str, str], absent: Sequence[str]) -> None:
        self.directory = directory
        self.modules = modules
        self.owned = {name.partition(".")[0] for name in modules}
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
                loader=_SliceLoader(fullname, file),
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
    finder = _SliceFinder(directory, manifest["modules"], manifest["absent"])
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
