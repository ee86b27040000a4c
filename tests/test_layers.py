"""Imports go in one direction, and what must stay light stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "diffuzz"

# A module may import from its own layer and from those above it in this list.
LAYERS: list[set[str]] = [
    {"errors", "arch", "case", "outcome", "finding", "expected", "numerics", "cache"},
    {"sources", "casefile"},
    {"target", "stand_ins", "calling", "inputs", "shrink", "bisection"},
    {"generate", "slicing", "discovery", "devices", "corpus"},
    {"native"},
    {"executors", "oracles"},
    {"campaign"},
    {"folding", "planning"},
    {"report", "minimise", "history", "verdicts", "bundle", "timing", "sanitizing"},
    {"reproducer", "timeline", "blame", "bisect", "doctor", "crosscheck"},
    {"session"},
    {"nightly"},
    {"cli"},
    {"__main__"},
]


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def top(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Top-level names inside the package that the file imports, lazily or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
            if node.module == "diffuzz":
                names = [f"diffuzz.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("diffuzz.")}
    return found - {"__version__"}


def layer(name: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if name in layer)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_to_earlier_layers(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    for name in imports(path):
        assert layer(name) <= layer(top(path)), f"{path.name} imports {name}"


@pytest.mark.parametrize("module", ["bisection", "shrink"])
def test_search_algorithms_import_neither_git_nor_torch(module: str) -> None:
    code = f"import sys, diffuzz.{module}; print(*{{'torch', 'git'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"]])
def test_help_does_not_import_torch(words: list[str]) -> None:
    code = (
        "import sys, contextlib\n"
        "from diffuzz.cli import cli\n"
        "with contextlib.suppress(SystemExit):\n"
        f"    cli.main({words!r})\n"
        "assert 'torch' not in sys.modules and 'git' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_stay_small_and_say_what_they_are_for(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "no module docstring"
