"""The identity of a slice: one hash over everything that decides what it computes.

Kept units are numbered in the order in which they are reached from the entries, so that neither
file names nor module names take part: only what each unit says, what its names refer to, and under
which conditions they are bound.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from diffuzz.slicing.closure import Closure
from diffuzz.slicing.resolution import Choice, Node, Outside, Ref
from diffuzz.slicing.tree import module_name


def slice_hash(
    closure: Closure,
    entries: Sequence[tuple[str, Sequence[Node]]],
    identities: Sequence[str] = (),
) -> str:
    """Hash over the closure as seen from ``entries`` (name and units each), hexadecimal.
    ``identities`` are strings that count as well, in any order: of stand-ins, of native code."""
    numbered = _Numbered(closure)
    described = {
        "entries": [[name, [numbered.number(n) for n in nodes]] for name, nodes in sorted(entries)],
        "units": numbered.described(),
        "absent": sorted(closure.found.absent),
        "identities": sorted(identities),
    }
    return _digest(described)


class _Numbered:
    def __init__(self, closure: Closure) -> None:
        self.closure = closure
        self.order: dict[Node, int] = {}
        self._units: list[Any] = []
        self._todo: list[Node] = []

    def number(self, node: Node) -> int:
        if node not in self.order:
            self.order[node] = len(self.order)
            self._todo.append(node)
        return self.order[node]

    def described(self) -> list[Any]:
        done = 0
        while done < len(self._todo):
            self._units.append(self._describe(self._todo[done]))
            done += 1
        return self._units

    def _describe(self, node: Node) -> Any:
        edges = [
            [spelled, [self._choice(choice) for choice in choices]]
            for spelled, choices in self.closure.edges.get(node, ())
        ]
        return [own_digest(self.closure, node), self._conditions(node), edges]

    def _conditions(self, node: Node) -> list[Any]:
        path, index = node
        if index < 0:
            return []
        module = self.closure.tree.module(path)
        unit = module.units[index]
        branch = (module.units[unit.owner] if unit.owner is not None else unit).branch
        found = []
        while branch is not None:
            condition = module.conditions[branch[0]]
            if condition.known is None:
                found.append([self.number((path, -1 - branch[0])), branch[1]])
            branch = condition.branch
        return found

    def _choice(self, choice: Choice) -> list[Any]:
        under = [[self.number((path, -1 - index)), body] for path, (index, body) in choice.under]
        return [self._ref(choice.ref), under]

    def _ref(self, ref: Ref) -> Any:
        if isinstance(ref, Outside):
            return [ref.what, ref.stand_in or ""]
        return self.number(ref)


def own_digest(closure: Closure, node: Node) -> str:
    """Digest of what one unit (or, below zero, one condition) says, names unresolved."""
    path, index = node
    module = closure.tree.module(path)
    if index < 0:
        return module.test_facts(module.conditions[-1 - index]).digest
    return module.facts(module.units[index]).digest


def definition_digests(closure: Closure) -> dict[str, str]:
    """A digest for each kept definition by its dotted name: what it says, under which conditions,
    and which names outside vLLM its names refer to. Of other definitions only the name counts, so
    that a change is told where it was made."""
    parts: dict[str, list[Any]] = {}
    for path, kept in closure.found.kept.items():
        module = closure.tree.module(path)
        for index in sorted(kept.units):
            unit = module.units[index]
            for name in _labels(closure, (path, index)) or [f"line {unit.span.start[0]}"]:
                said = [own_digest(closure, (path, index)), _outside(closure, (path, index))]
                branch = (module.units[unit.owner] if unit.owner is not None else unit).branch
                while branch is not None:
                    said.append([own_digest(closure, (path, -1 - branch[0])), branch[1]])
                    branch = module.conditions[branch[0]].branch
                parts.setdefault(f"{module_name(path)}.{name}", []).append(said)
    return {name: _digest(said) for name, said in sorted(parts.items())}


def _labels(closure: Closure, node: Node) -> list[str]:
    module = closure.tree.module(node[0])
    unit = module.units[node[1]]
    if unit.owner is None:
        return sorted(unit.names)
    owner = min(module.units[unit.owner].names)
    return sorted(f"{owner}.{name}" for name in unit.names)


def _outside(closure: Closure, node: Node) -> list[Any]:
    found = []
    for spelled, choices in closure.edges.get(node, ()):
        refs = []
        for choice in choices:
            if isinstance(choice.ref, Outside):
                refs.append([choice.ref.what, choice.ref.stand_in or ""])
            else:
                refs.append(_labels(closure, choice.ref))
        found.append([spelled, refs])
    return found


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
