"""What a name refers to, across modules: definitions in vLLM's files, stand-ins, or names of
other packages. Import statements passed on the way are kept with the names they carry."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from diffuzz.slicing.module import Branch, ParsedModule, Unit
from diffuzz.slicing.standins import StandInModule
from diffuzz.slicing.syntax import ImportedName
from diffuzz.slicing.tree import ROOT, NotThere, Tree, Unresolved

ALLOWED_PACKAGES = frozenset({"torch", "triton", "numpy", "typing_extensions", "packaging"})
"""Packages a slice may import besides the standard library: those diffuzz itself brings along."""

_MODULE_NAMES = frozenset({"__name__", "__file__", "__doc__", "__package__", "__spec__"})

Node = tuple[str, int]
"""A kept unit: path and index."""


@dataclass(frozen=True)
class Outside:
    """What a name refers to beyond vLLM's definitions: a dotted name of another package, or
    a name of the stand-in with digest ``stand_in``. ``whole_module``: one of vLLM's modules itself,
    which no slice holds."""

    what: str
    stand_in: str | None = None
    whole_module: bool = False


Ref = Node | Outside


@dataclass(frozen=True)
class Choice:
    """One binding a name may have: what it refers to, and under which conditions."""

    ref: Ref
    under: tuple[tuple[str, Branch], ...] = ()


@dataclass
class Kept:
    """What is kept of one file. ``aliases``: of each import statement, the names it still binds;
    ``stars``: names to import in the place of ``*``."""

    units: set[int] = field(default_factory=set)
    aliases: dict[int, set[str]] = field(default_factory=dict)
    stars: dict[int, set[str]] = field(default_factory=dict)


class Resolution:
    """Resolves names and keeps what they refer to. ``pending`` are kept units, and conditions (by
    ``-1 - index``), whose own names have still to be followed."""

    def __init__(self, tree: Tree, stand_ins: Mapping[str, StandInModule]) -> None:
        self.tree = tree
        self.stand_ins = stand_ins
        self.kept: dict[str, Kept] = {}
        self.pending: list[Node] = []
        self.used_stand_ins: set[str] = set()
        self.absent: set[str] = set()
        self._names: dict[tuple[str, tuple[str, ...]], tuple[Choice, ...] | Unresolved] = {}
        self._starring: set[tuple[str, str]] = set()
        self._conditions: set[Node] = set()

    def keep(self, path: str, unit: Unit) -> Node:
        """Keep a unit, and the conditions it stands under."""
        kept = self.kept.setdefault(path, Kept())
        if unit.index not in kept.units:
            kept.units.add(unit.index)
            self.pending.append((path, unit.index))
            owner = unit if unit.owner is None else self.tree.module(path).units[unit.owner]
            self._keep_conditions(path, owner.branch)
        return (path, unit.index)

    def _keep_conditions(self, path: str, branch: Branch | None) -> None:
        module = self.tree.module(path)
        for index, _ in _branches(module, branch):
            node = (path, -1 - index)
            if node not in self._conditions:
                self._conditions.add(node)
                self.pending.append(node)

    # Names -----------------------------------------------------------------------------------

    def name(self, path: str, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        """Everything the chain's first name may be bound to in a module, the rest followed as far
        as modules and plain classes go."""
        key = (path, chain)
        if key not in self._names:
            self._names[key] = ()  # so that a circle of re-exports ends
            try:
                self._names[key] = self._bindings(path, chain)
            except Unresolved as error:
                self._names[key] = error
        found = self._names[key]
        if isinstance(found, Unresolved):
            raise found
        return found

    def _bindings(self, path: str, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        module = self.tree.module(path)
        found: list[Choice] = []
        failed: Unresolved | None = None
        units = [module.units[i] for i in module.bindings.get(chain[0], ())]
        for unit in _relevant(units, chain):
            under = tuple((path, b) for b in _branches(module, unit.branch))
            try:
                refs = self._binding(path, unit, chain)
            except NotThere as error:
                if not _guarded(unit, chain[0]):
                    raise
                failed = error
                continue
            self._keep_conditions(path, unit.branch)
            found += [replace(choice, under=under + choice.under) for choice in refs]
        if not found:
            found = list(self._star(path, chain))
        if found:
            return tuple(found)
        if failed is not None:
            raise failed
        return self._builtin(path, chain[0])

    def _binding(self, path: str, unit: Unit, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        items = [i for i in unit.imports if i.bound == chain[0]]
        if unit.kind == "import":
            refs: tuple[Choice, ...] = ()
            for item in items:
                refs += self.imported(path, item, chain[1:])
                aliases = self.kept.setdefault(path, Kept()).aliases
                aliases.setdefault(unit.index, set()).add(item.bound)
            return refs
        if unit.kind == "class" and unit.plain_class and len(chain) > 1:
            units = self.tree.module(path).units
            members = [units[i] for i in unit.members.get(chain[1], ())]
            if members and all(m.flavour or m.kind == "other" for m in members):
                return self.members(path, unit, chain[1])
        found: tuple[Choice, ...] = ()
        for item in items:
            try:
                found += self.imported(path, item, chain[1:])
            except NotThere:
                if not (item.guarded and chain[0] in unit.rebinds):
                    raise
        return (Choice(self.keep(path, unit)), *found)

    def members(self, path: str, owner: Unit, name: str) -> tuple[Choice, ...]:
        """Members of a class, kept without the rest of it."""
        units = self.tree.module(path).units
        return tuple(Choice(self.keep(path, units[i])) for i in owner.members[name])

    def _star(self, path: str, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        """The name as ``from module import *`` brings it in, from vLLM's modules and stand-ins."""
        module = self.tree.module(path)
        if (path, chain[0]) in self._starring or chain[0].startswith("_"):
            return ()
        self._starring.add((path, chain[0]))
        try:
            for index, name in self._star_imports(path, module):
                if self._offers(name, chain[0]):
                    stars = self.kept.setdefault(path, Kept()).stars
                    stars.setdefault(index, set()).add(chain[0])
                    return self._member(name, chain[0], chain[1:])
        finally:
            self._starring.discard((path, chain[0]))
        return ()

    def _star_imports(self, path: str, module: ParsedModule) -> list[tuple[int, str]]:
        units = [module.units[i] for i in module.star_imports]
        return [(u.index, self._absolute(path, i)) for u in units for i in u.imports]

    def _offers(self, module: str, name: str) -> bool:
        """Whether a star import of ``module`` is known to bring ``name``."""
        if module in self.stand_ins:
            return name in self.stand_ins[module].names
        path = self.tree.path_of(module) if module.split(".")[0] == ROOT else None
        return path is not None and self._defines(path, name)

    def _builtin(self, path: str, name: str) -> tuple[Choice, ...]:
        """A name nothing in the module binds. Star imports of other packages may shadow it, and
        what they hold is not known here: they stay, or leave other names unresolved."""
        for index, module in self._star_imports(path, self.tree.module(path)):
            if module not in self.stand_ins and module.split(".")[0] != ROOT:
                self._require_package(module)
                self.kept.setdefault(path, Kept()).stars.setdefault(index, set()).add("*")
        if hasattr(builtins, name) or name in _MODULE_NAMES:
            return (Choice(Outside(f"builtins.{name}")),)
        raise Unresolved(f"missing {name}")

    # Modules ---------------------------------------------------------------------------------

    def run_import(self, path: str, item: ImportedName) -> None:
        """An import a kept statement runs: it must succeed, or be caught."""
        module = self._absolute(path, item)
        try:
            if item.name is None:
                self._require_module(module)
            elif item.name != "*":
                self._member(module, item.name, ())
        except NotThere as error:
            if not item.guarded:
                raise
            self.absent.add(error.what)

    def imported(self, path: str, item: ImportedName, rest: tuple[str, ...]) -> tuple[Choice, ...]:
        module = self._absolute(path, item)
        if item.plain:
            self._require_module(module)
            return self._attributes(item.bound, rest)
        if item.name is None:
            return self._attributes(module, rest)
        return self._member(module, item.name, rest)

    def _absolute(self, path: str, item: ImportedName) -> str:
        if not item.level:
            return item.module
        package = path.split("/")[: -item.level]
        if not package:
            raise Unresolved(f"missing {'.' * item.level}{item.module} (in {path})")
        return ".".join([*package, *([item.module] if item.module else [])])

    def _require_module(self, name: str) -> None:
        if name in self.stand_ins:
            self.used_stand_ins.add(name)
        elif name.split(".")[0] == ROOT:
            if not self._is_module(name):
                raise NotThere(name)
            path = self.tree.path_of(name)
            if path is not None:
                self.kept.setdefault(path, Kept())
        elif not self._is_module(name):
            self._require_package(name)

    def _require_package(self, name: str) -> None:
        top = name.split(".")[0]
        if top not in ALLOWED_PACKAGES and top not in sys.stdlib_module_names:
            raise NotThere(name)

    def _attributes(self, module: str, rest: tuple[str, ...]) -> tuple[Choice, ...]:
        """A chain from a module object."""
        if rest:
            return self._member(module, rest[0], rest[1:])
        self._require_module(module)
        if module in self.stand_ins:
            return (self._stand_in(module, ()),)
        if self._is_module(module):
            return (Choice(Outside(module, whole_module=True)),)
        return (Choice(Outside(module)),)

    def _member(self, module: str, name: str, rest: tuple[str, ...]) -> tuple[Choice, ...]:
        """``name`` of a module: what it defines, or a submodule."""
        below = f"{module}.{name}"
        if module in self.stand_ins:
            lacking = self.stand_ins[module].lacks((name, *rest))
            if lacking is None:
                return (self._stand_in(module, (name, *rest)),)
            if lacking != below or not self._is_module(below):
                raise Unresolved(f"missing {lacking}")
        elif module.split(".")[0] != ROOT:
            if not self._is_module(below):
                self._require_package(module)
                return (Choice(Outside(".".join((module, name, *rest)))),)
        else:
            path = self.tree.path_of(module)
            if path is not None and self._defines(path, name):
                self.kept.setdefault(path, Kept())
                found = self.name(path, (name, *rest))
                if found or not self._is_module(below):  # else ``from . import below``
                    return found
        if not self._is_module(below):
            raise NotThere(below if self._is_module(module) else module)
        return self._attributes(below, rest)

    def _is_module(self, name: str) -> bool:
        if any(s == name or s.startswith(f"{name}.") for s in self.stand_ins):
            return True
        return name.split(".")[0] == ROOT and self.tree.path_of(name) is not None

    def _defines(self, path: str, name: str) -> bool:
        module = self.tree.module(path)
        if name in module.bindings:
            return True
        return bool(module.star_imports) and bool(self._star(path, (name,)))

    def _stand_in(self, module: str, chain: tuple[str, ...]) -> Choice:
        self.used_stand_ins.add(module)
        return Choice(Outside(".".join(chain), self.stand_ins[module].digest))


def _branches(module: ParsedModule, branch: Branch | None) -> list[Branch]:
    found: list[Branch] = []
    while branch is not None:
        condition = module.conditions[branch[0]]
        if condition.known is None:
            found.append(branch)
        branch = condition.branch
    return found


def _guarded(unit: Unit, name: str) -> bool:
    return any(i.bound == name and i.guarded for i in unit.imports)


def _relevant(units: list[Unit], chain: tuple[str, ...]) -> list[Unit]:
    """Of several ``import a.b``, ``import a.c`` that all bind ``a``, those the chain needs."""
    plain = [u for u in units if u.kind == "import" and _plain_depth(u, chain) is not None]
    depths = {u.index: _plain_depth(u, chain) or 0 for u in plain}
    if not any(depths.values()):
        return units
    return [u for u in units if u.index not in depths or depths[u.index] > 0]


def _plain_depth(unit: Unit, chain: tuple[str, ...]) -> int | None:
    """How many parts of the chain a plain import covers; None if it is no plain import of it."""
    best: int | None = None
    for item in unit.imports:
        if item.plain and item.bound == chain[0]:
            parts = tuple(item.module.split("."))
            covers = len(parts) if chain[: len(parts)] == parts else 0
            best = max(best or 0, covers)
    return best
