"""Which ops a bindings file declares, and which C++ function implements each.

Understands ``(STABLE_)TORCH_LIBRARY(_FRAGMENT|_IMPL)(NAMESPACE, ...)`` blocks with ``def`` and
``impl`` calls, as vLLM has written them over time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from diffuzz.native.cpp_text import closing, split_arguments, string_value

_BLOCK = re.compile(r"\b(STABLE_)?TORCH_LIBRARY(_FRAGMENT|_IMPL)?(_EXPAND)?\s*\(")
_CALL = re.compile(r"\b(\w+)\s*\.\s*(def|impl)\s*\(")
_EXTENSION_OF_FOLDER = {"moe": "_moe_C", "rocm": "_rocm_C"}
_DEVICE_KEYS = ("CUDA", "HIP", "PrivateUse1")


@dataclass(frozen=True)
class Binding:
    """One ``def`` (``schema`` set) or ``impl`` (``function`` set, unless it is a lambda)."""

    op: str
    namespace: str
    schema: str | None = None
    function: str | None = None
    key: str | None = None
    stable: bool = False

    @property
    def on_device(self) -> bool:
        return self.key is None or self.key in _DEVICE_KEYS or self.key.startswith("Composite")


def extension_name(path: str) -> str:
    """What ``TORCH_EXTENSION_NAME`` stands for in a file: each folder is its own extension."""
    for part in path.split("/")[:-1]:
        if part in _EXTENSION_OF_FOLDER:
            return _EXTENSION_OF_FOLDER[part]
    return "_C"


def _namespace(expression: str, path: str) -> str:
    text = expression.replace("TORCH_EXTENSION_NAME", extension_name(path))
    joined = re.fullmatch(r"CONCAT\s*\((.*)\)", text.strip())
    return "".join(split_arguments(joined.group(1))) if joined else text.strip()


def parse_bindings(path: str, text: str) -> list[Binding]:
    """All bindings in ``text``, which has no comments and only the platform's branches."""
    found: list[Binding] = []
    for match in _BLOCK.finditer(text):
        end = closing(text, match.end() - 1)
        body_start = text.find("{", end)
        if end < 0 or body_start < 0 or text[end + 1 : body_start].strip():
            continue  # a macro's definition, not a use
        arguments = split_arguments(text[match.end() : end])
        body_end = closing(text, body_start)
        if len(arguments) < 2 or body_end < 0:
            continue
        key = arguments[1] if match.group(2) == "_IMPL" and len(arguments) == 3 else None
        namespace, variable = _namespace(arguments[0], path), arguments[-1]
        body = text[body_start:body_end]
        for call in _CALL.finditer(body):
            if call.group(1) == variable:
                inside = body[call.end() : closing(body, call.end() - 1)]
                found += _binding(
                    call.group(2), split_arguments(inside), namespace, key, bool(match.group(1))
                )
    return found


def _binding(
    verb: str, arguments: list[str], namespace: str, key: str | None, stable: bool
) -> list[Binding]:
    first = string_value(arguments[0]) if arguments else None
    if first is None:
        return []
    name = first.partition("(")[0].strip().split("::")[-1]
    function = _function(arguments[-1]) if len(arguments) > 1 else None
    if verb == "def":
        schema = first.strip() if "(" in first else None
        return [Binding(name, namespace, schema=schema, function=function, stable=stable)]
    if len(arguments) == 3:
        key = arguments[1].split("::")[-1].removeprefix("k")
    return [Binding(name, namespace, function=function, key=key, stable=stable)]


def _function(expression: str) -> str | None:
    """Name of the function in ``&f``, ``TORCH_BOX(&f)`` or ``TORCH_FN(ns::f)``; else None."""
    inner = re.fullmatch(r"(?:TORCH_BOX|TORCH_FN)\s*\((.*)\)", expression.strip(), re.S)
    bare = inner.group(1) if inner else expression
    name = re.fullmatch(r"&?\s*((?:::)?\w+(?:::\w+)*)", bare.strip())
    return name.group(1).removeprefix("::") if name else None
