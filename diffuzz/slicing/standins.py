"""Stand-in modules: what a target puts in the place of vLLM's platform code and of packages that
are not there. Their text is parsed so that a name they do not define is noticed before running."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from functools import lru_cache

from diffuzz.errors import UsageError
from diffuzz.slicing.bindings import imports_run
from diffuzz.slicing.syntax import FunctionNode, bound_in, dotted


class StandInModule:
    """The names one stand-in defines, and the attributes of those that are plain objects."""

    def __init__(self, name: str, text: str) -> None:
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise UsageError(f"stand-in {name}: line {error.lineno}: {error.msg}") from None
        self.name = name
        self.text = text
        self.digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        self.names = bound_in(tree.body)
        self.imports = imports_run(tree.body)
        self._classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
        self._attributes = {n: self._attributes_of(tree, n) for n in self.names}

    def lacks(self, chain: tuple[str, ...]) -> str | None:
        """The first part of ``chain`` that is certainly not there, dotted, or None."""
        if not chain:
            return None
        if chain[0] not in self.names:
            return f"{self.name}.{chain[0]}"
        attributes = self._attributes[chain[0]]
        if attributes is not None and len(chain) > 1 and chain[1] not in attributes:
            return f"{self.name}.{chain[0]}.{chain[1]}"
        return None

    def _attributes_of(self, tree: ast.Module, name: str) -> frozenset[str] | None:
        """Attributes of ``name``, known where it is a class of the stand-in without bases, or
        bound once, to an instance of one. None: cannot be told."""
        if name in self._classes:
            return self._class_attributes(self._classes[name])
        values = [
            n.value
            for n in ast.walk(tree)
            if isinstance(n, ast.Assign) and any(dotted(t) == (name,) for t in n.targets)
        ]
        if len(values) != 1 or not isinstance(values[0], ast.Call):
            return None
        made = self._classes.get((dotted(values[0].func) or ("",))[-1])
        return None if made is None else self._class_attributes(made)

    def _class_attributes(self, node: ast.ClassDef) -> frozenset[str] | None:
        found = set(bound_in(node.body))
        dynamic = {"__getattr__", "__getattribute__", "__setattr__"}
        if node.bases or node.keywords or node.decorator_list or found & dynamic:
            return None
        for method in node.body:
            if isinstance(method, FunctionNode) and method.args.args:
                own = method.args.args[0].arg
                chains = (dotted(n) for n in ast.walk(method) if isinstance(n, ast.Attribute))
                found |= {c[1] for c in chains if c and c[0] == own}
        return frozenset(found | set(dir(object)))


@lru_cache(maxsize=256)
def _parsed(name: str, text: str) -> StandInModule:
    return StandInModule(name, text)


def parse_stand_ins(modules: Mapping[str, str]) -> dict[str, StandInModule]:
    """All stand-ins by module name. Raises :class:`UsageError` for text that is not Python."""
    return {name: _parsed(name, text) for name, text in modules.items()}
