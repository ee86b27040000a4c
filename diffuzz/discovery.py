"""Finding targets: every file or folder of a targets folder, by name.

diffuzz's own are in ``targets/`` of the repository (``diffuzz/targets`` in the wheel); third
parties add theirs with ``--targets DIR`` or the entry point group ``diffuzz.targets``, whose
entries name a ``Target`` object.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from diffuzz.errors import UsageError
from diffuzz.target import Target

_GROUP = "diffuzz.targets"


def own_folder() -> Path:
    """The folder of the targets that come with diffuzz."""
    here = Path(__file__).resolve().parent
    shipped = here / "targets"
    return shipped if shipped.is_dir() else here.parent / "targets"


def _files(folder: Path) -> dict[str, Path]:
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(("_", ".")):
            continue
        if path.suffix == ".py":
            found[path.stem] = path
        elif (path / "__init__.py").is_file():
            found[path.name] = path / "__init__.py"
    return found


def locate(extra: tuple[str, ...] = ()) -> dict[str, Path]:
    """Target name → file, from diffuzz's folder and those of ``--targets``; later ones win."""
    found = _files(own_folder())
    for name in extra:
        folder = Path(name)
        if not folder.is_dir():
            raise UsageError(f"--targets {name}: no such folder")
        found.update(_files(folder))
    return found


def load_file(name: str, path: Path) -> Target:
    """Import the target file at ``path``; :class:`UsageError` says what is wrong with it."""
    module_name = f"diffuzz_targets.{name}"
    if "diffuzz_targets" not in sys.modules:
        parent = ModuleType("diffuzz_targets")
        parent.__path__ = []
        sys.modules["diffuzz_targets"] = parent
    package = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(
        module_name, path, submodule_search_locations=package
    )
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
        target: Target = module.TARGET
    except Exception as error:
        del sys.modules[module_name]
        raise UsageError(f"{path}: {type(error).__name__}: {error}") from error
    if target.name != name:
        raise UsageError(f"{path}: its target is called {target.name!r}, the file {name!r}")
    return target


def load(name: str, extra: tuple[str, ...] = ()) -> Target:
    """The target called ``name``; :class:`UsageError` lists the known ones."""
    found = locate(extra)
    if name in found:
        return load_file(name, found[name])
    installed = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if name in installed:
        target: Target = installed[name].load()
        return target
    known = ", ".join(sorted({*found, *installed}))
    raise UsageError(f"unknown target {name!r}; known: {known}")


def names(extra: tuple[str, ...] = ()) -> list[str]:
    """All known target names, sorted."""
    return sorted({*locate(extra), *(entry.name for entry in entry_points(group=_GROUP))})
