"""From locations in the IR to lines of the kernel's source."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

from diffuzz.executors.ttir.ir import Module, Op
from diffuzz.outcome import Location

_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)"\s?:\s?(\d+)\s?:\s?(\d+)')
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\s?\((.*)\)$')
_CALL = re.compile(r"callsite\s?\((.*) at (.*)\)$")
_ALIAS = re.compile(r"#[\w$.\-]+$")
_FUSED = re.compile(r"fused(?:<.*?>)?\s?\[(.*)\]$")

Place = tuple[str, int, int]


def places(module: Module, loc: str, depth: int = 0) -> list[Place]:
    """(file, line, column) of a location, innermost call first; empty where it is unknown."""
    loc = loc.strip()
    if depth > 60 or not loc:
        return []
    if _ALIAS.match(loc):
        return places(module, module.locations.get(loc, ""), depth + 1)
    if match := _CALL.match(loc):
        inner, outer = match.groups()
        return places(module, inner, depth + 1) + places(module, outer, depth + 1)
    if match := _PLACE.match(loc):
        return [(match.group(1), int(match.group(2)), int(match.group(3)))]
    if match := _NAMED.match(loc):
        return places(module, match.group(1), depth + 1)
    if match := _FUSED.match(loc):
        for part in match.group(1).split(","):
            if found := places(module, part, depth + 1):
                return found
    return []


@lru_cache(maxsize=256)
def _functions(file: str) -> list[tuple[int, int, str]]:
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            spans.append((node.lineno, node.end_lineno or node.lineno, node.name))
    return spans


def function_at(file: str, line: int) -> str:
    """Name of the innermost function of ``file`` that spans ``line``, or an empty string."""
    around = [s for s in _functions(file) if s[0] <= line <= s[1]]
    return max(around, default=(0, 0, ""))[2]


def shown_path(file: str, root: str | None = None) -> str:
    """``file`` as reports name it: relative to ``root``, else from its last ``vllm`` folder on."""
    path = Path(file)
    if root is not None and path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    parts = path.parts
    for at in range(len(parts) - 2, -1, -1):
        if parts[at] == "vllm":
            return "/".join(parts[at:])
    return path.as_posix()


def locate(module: Module, op: Op, root: str | None = None) -> Location | None:
    """Where an operation comes from: the innermost line that is not in Triton's own library."""
    found = places(module, op.loc)
    own = [p for p in found if "/triton/language/" not in p[0]] or found
    if not own:
        return None
    file, line, _ = own[0]
    return Location(shown_path(file, root), line, function_at(file, line))
