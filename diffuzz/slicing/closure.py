"""The closure of a set of entries: from names to definitions, across modules, until nothing is
left to follow. What was kept, and what refers to what, is the result; see :mod:`.identity` for the
hash and :mod:`.masking` for the text."""

from __future__ import annotations

from collections.abc import Mapping

from diffuzz.slicing.module import Condition, Unit
from diffuzz.slicing.names import Use
from diffuzz.slicing.resolution import Choice, Node, Outside, Resolution
from diffuzz.slicing.standins import StandInModule
from diffuzz.slicing.tree import ROOT, Tree, Unresolved

Edge = tuple[str, tuple[Choice, ...]]
"""A name as it is spelled, and what it may refer to."""


class Closure:
    """Follows the names of what is kept. ``edges`` holds, for each kept unit and condition, what
    each of its names refers to; ``ops`` the native operators named; ``annotated`` the lines of
    functions whose annotations are read, by file."""

    def __init__(self, tree: Tree, stand_ins: Mapping[str, StandInModule]) -> None:
        self.tree = tree
        self.found = Resolution(tree, stand_ins)
        self.edges: dict[Node, list[Edge]] = {}
        self.ops: set[str] = set()
        self.annotated: dict[str, set[int]] = {}

    def run(self) -> None:
        """Follow everything kept so far. Raises :class:`Unresolved`."""
        while self.found.pending:
            path, index = self.found.pending.pop()
            module = self.tree.module(path)
            if index < 0:
                edges = self._of_condition(path, module.conditions[-1 - index])
            else:
                edges = self._of_unit(path, module.units[index])
            self.edges[path, index] = edges

    def _of_condition(self, path: str, condition: Condition) -> list[Edge]:
        edges: list[Edge] = []
        for use in self.tree.module(path).test_facts(condition).needs.uses:
            choices = self._resolve(path, use)
            if choices is not None:
                edges.append((".".join(use.chain), choices))
        return edges

    def _of_unit(self, path: str, unit: Unit) -> list[Edge]:
        facts = self.tree.module(path).facts(unit)
        edges: list[Edge] = []
        for item in facts.needs.imports:
            self.found.run_import(path, item)
        for use in facts.needs.uses:
            choices = self._use(path, unit, use)
            if choices is not None:
                edges.append((".".join(use.chain), choices))
                edges += self._operators(path, choices, use.need == "must")
        if unit.flavour == "classmethod":
            edges += self._of_class(path, unit, facts.own)
        if any(name.startswith("torch.ops.") for name in unit.names):
            edges += self._annotations(edges)
        return edges

    def _annotations(self, edges: list[Edge]) -> list[Edge]:
        """What the annotations of registered functions name: torch makes the operator's schema
        from them."""
        found: list[Edge] = []
        for path, index in [c.ref for _, cs in edges for c in cs if isinstance(c.ref, tuple)]:
            module = self.tree.module(path)
            if module.units[index].kind == "function":
                self.annotated.setdefault(path, set()).add(module.units[index].definition[0])
                for use in module.annotations(module.units[index]):
                    found.append((".".join(use.chain), self._follow(path, use)))
        return found

    def _operators(self, path: str, choices: tuple[Choice, ...], must: bool) -> list[Edge]:
        """Registrations of the operators a use names. Those of vLLM's own namespace are written in
        Python, beside their callers; the others are native."""
        edges: list[Edge] = []
        for choice in choices:
            if not isinstance(choice.ref, Outside) or not choice.ref.what.startswith("torch.ops."):
                continue
            name = ".".join(choice.ref.what.split(".")[:4])
            module = self.tree.module(path)
            units = [module.units[i] for i in module.bindings.get(name, ())]
            if units:
                edges.append((name, tuple(Choice(self.found.keep(path, u)) for u in units)))
            elif name.startswith(f"torch.ops.{ROOT}.") and must:
                raise Unresolved(f"missing {name}")
            elif must or name.count(".") == 3:
                self.ops.add(name)
        return edges

    def _of_class(self, path: str, unit: Unit, own: tuple[str, ...]) -> list[Edge]:
        """What a class method takes from its class."""
        owner = self.tree.module(path).units[unit.owner or 0]
        edges: list[Edge] = []
        if "" in own:
            return [(min(owner.names), (Choice(self.found.keep(path, owner)),))]
        for name in own:
            if name not in owner.members:
                raise Unresolved(f"missing {_class_name(owner)}.{name}")
            edges.append((name, self.found.members(path, owner, name)))
        return edges

    # Uses ------------------------------------------------------------------------------------

    def _use(self, path: str, unit: Unit, use: Use) -> tuple[Choice, ...] | None:
        if unit.owner is None:
            return self._resolve(path, use)
        module = self.tree.module(path)
        owner = module.units[unit.owner]
        if use.outer and use.through is None and use.chain[0] in owner.members:
            return self.found.members(path, owner, use.chain[0])
        if use.chain[0] == "super":
            raise Unresolved(f"missing base classes of {_class_name(owner)} (super is called)")
        return self._resolve(path, use)

    def _resolve(self, path: str, use: Use) -> tuple[Choice, ...] | None:
        """What a use refers to, or None where it may be absent and is."""
        if use.need == "must":
            return self._follow(path, use)
        try:
            return self._follow(path, use) if use.need == "may" else self._typing(path, use)
        except Unresolved:
            return None

    def _follow(self, path: str, use: Use) -> tuple[Choice, ...]:
        if use.through is not None:
            choices = self.found.imported(path, use.through, use.chain[1:])
        else:
            choices = self.found.name(path, use.chain)
        for choice in choices:
            if isinstance(choice.ref, Outside) and choice.ref.whole_module:
                raise Unresolved(f"missing {choice.ref.what} (the module is used as a value)")
        return choices

    def _typing(self, path: str, use: Use) -> tuple[Choice, ...] | None:
        canonical = self.tree.module(path).canonical(use.chain)
        if canonical.split(".")[0] in ("typing", "dataclasses", "typing_extensions"):
            return self._follow(path, use)
        return None


def _class_name(unit: Unit) -> str:
    return next(iter(unit.names), "?")
