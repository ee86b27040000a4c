"""The closure of a set of entries: from names to definitions, across modules, until nothing is
left to follow. What was kept, and what refers to what, is the result; see :mod:`.identity` for the
hash and :mod:`.masking` for the text."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from diffuzz.slicing.module import (
    Branch,
    ModuleCache,
    ParsedModule,
    Unit,
    Unparsable,
    content_key,
)
from diffuzz.slicing.names import ImportedName, Use
from diffuzz.slicing.standins import StandInModule
from diffuzz.sources import Source

ROOT = "vllm"
ALLOWED_PACKAGES = frozenset({"torch", "triton", "numpy", "typing_extensions", "packaging"})
_MODULE_NAMES = frozenset(
    {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__path__"}
)

Node = tuple[str, int]
"""A kept unit: path and index."""


@dataclass(frozen=True)
class Outside:
    """What a name refers to beyond vLLM's files: ``what`` is a dotted name, or names a stand-in by
    its text."""

    what: str
    stand_in: str | None = None


Ref = Node | Outside


@dataclass(frozen=True)
class Choice:
    """One binding a name may have: what it refers to, and under which conditions."""

    ref: Ref
    under: tuple[tuple[str, Branch], ...] = ()


Edge = tuple[str, tuple[Choice, ...]]
"""A name as it is spelled, and what it may refer to."""


class Unresolved(Exception):
    """A name nothing defines. The message is the reason users see."""


@dataclass
class Kept:
    """What is kept of one file. ``aliases``: of each import statement, the names it still binds;
    ``stars``: names to import in the place of ``*``."""

    units: set[int] = field(default_factory=set)
    aliases: dict[int, set[str]] = field(default_factory=dict)
    stars: dict[int, set[str]] = field(default_factory=dict)


class Tree:
    """A revision's modules: dotted names to files, and every look-up remembered."""

    def __init__(self, source: Source, cache: ModuleCache) -> None:
        self.source = source
        self.cache = cache
        self.looked_up: dict[str, str | None] = {}
        self._paths: dict[str, str | None] = {}
        self._parsed: dict[str, ParsedModule] = {}

    def has(self, path: str) -> bool:
        if path not in self.looked_up:
            blob = self.source.blob_id(path)
            if blob is None:
                text = self.source.read(path)
                blob = None if text is None else content_key(None, text)
            self.looked_up[path] = blob
        return self.looked_up[path] is not None

    def path_of(self, name: str) -> str | None:
        """The file of a dotted module name, or None."""
        if name not in self._paths:
            base = name.replace(".", "/")
            candidates = (f"{base}.py", f"{base}/__init__.py")
            self._paths[name] = next((p for p in candidates if self.has(p)), None)
        return self._paths[name]

    def module(self, path: str) -> ParsedModule:
        """The parsed file. Raises :class:`Unresolved` if it cannot be read or parsed."""
        found = self._parsed.get(path)
        if found is None:
            try:
                found = self._parsed[path] = self._load(path)
            except Unparsable as error:
                raise Unresolved(f"cannot parse {path}: {error}") from None
        return found

    def _load(self, path: str) -> ParsedModule:
        key = self.looked_up[path] if self.has(path) else None
        found = self.cache.get(key) if key else None
        if found is not None:
            return found
        text = self.source.read(path)
        if text is None:
            raise Unresolved(f"no file {path}")
        return self.cache.parse(key or content_key(None, text), text)


def module_name(path: str) -> str:
    """``vllm/a/__init__.py`` and ``vllm/a.py`` are both ``vllm.a``."""
    base = path.removesuffix(".py").removesuffix("/__init__")
    return base.replace("/", ".")


class Closure:
    """Follows names. ``edges`` holds, for each kept unit, what each of its names refers to."""

    def __init__(self, tree: Tree, stand_ins: Mapping[str, StandInModule]) -> None:
        self.tree = tree
        self.stand_ins = stand_ins
        self.kept: dict[str, Kept] = {}
        self.edges: dict[Node, list[Edge]] = {}
        self.used_stand_ins: set[str] = set()
        self.absent: set[str] = set()
        self.ops: set[str] = set()
        self._starring: set[tuple[str, str]] = set()
        self._todo: list[Node] = []
        self._names: dict[tuple[str, tuple[str, ...]], tuple[Choice, ...] | None] = {}
        self._conditions: set[tuple[str, int]] = set()

    # Keeping ---------------------------------------------------------------------------------

    def keep(self, path: str, unit: Unit) -> Node:
        node = (path, unit.index)
        kept = self.kept.setdefault(path, Kept())
        if unit.index not in kept.units:
            kept.units.add(unit.index)
            self._todo.append(node)
        return node

    def run(self) -> None:
        """Follow everything kept so far. Raises :class:`Unresolved`."""
        while self._todo:
            self._follow_unit(self._todo.pop())

    def _follow_unit(self, node: Node) -> None:
        path, index = node
        module = self.tree.module(path)
        unit = module.units[index]
        facts = module.facts(unit)
        edges: list[Edge] = []
        for item in facts.needs.imports:
            self._run_import(path, item)
        for use in facts.needs.uses:
            choices = self._use(path, unit, use)
            if choices is not None:
                edges.append((".".join(use.chain), choices))
                edges += self._operators(path, choices)
        if unit.flavour == "classmethod":
            edges += self._of_class(path, unit, facts.own)
        self.edges[node] = edges
        self._follow_conditions(path, unit.branch)

    def _follow_conditions(self, path: str, branch: Branch | None) -> None:
        while branch is not None and (path, branch[0]) not in self._conditions:
            self._conditions.add((path, branch[0]))
            module = self.tree.module(path)
            condition = module.conditions[branch[0]]
            if condition.known is None:
                edges: list[Edge] = []
                for use in module.test_facts(condition).needs.uses:
                    choices = self._resolve(path, use)
                    if choices is not None:
                        edges.append((".".join(use.chain), choices))
                self.edges[path, -1 - condition.index] = edges
            branch = condition.branch

    def _operators(self, path: str, choices: tuple[Choice, ...]) -> list[Edge]:
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
                edges.append((name, tuple(Choice(self.keep(path, u)) for u in units)))
            elif name.startswith(f"torch.ops.{ROOT}."):
                raise Unresolved(f"missing {name}")
            else:
                self.ops.add(name)
        return edges

    def _of_class(self, path: str, unit: Unit, own: tuple[str, ...]) -> list[Edge]:
        """What a class method takes from its class."""
        owner = self.tree.module(path).units[unit.owner or 0]
        edges: list[Edge] = []
        for name in own:
            if name not in owner.members:
                raise Unresolved(f"missing {_class_name(owner)}{'.' if name else ''}{name}")
            edges.append((name, self._members(path, owner, name)))
        return edges

    # Uses ------------------------------------------------------------------------------------

    def _use(self, path: str, unit: Unit, use: Use) -> tuple[Choice, ...] | None:
        if unit.owner is None:
            return self._resolve(path, use)
        module = self.tree.module(path)
        owner = module.units[unit.owner]
        if use.outer and use.through is None and use.chain[0] in owner.members:
            return self._members(path, owner, use.chain[0])
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
            return self._imported(path, use.through, use.chain[1:])
        return self.name(path, use.chain)

    def _typing(self, path: str, use: Use) -> tuple[Choice, ...] | None:
        canonical = self.tree.module(path).canonical(use.chain)
        if canonical.split(".")[0] in ("typing", "dataclasses", "typing_extensions"):
            return self._follow(path, use)
        return None

    def name(self, path: str, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        """Everything the chain's first name may be bound to in a module, the rest followed as far
        as modules and plain classes go."""
        key = (path, chain)
        if key not in self._names:
            self._names[key] = None  # so that a circle of re-exports ends
            self._names[key] = self._bindings(path, chain)
        return self._names[key] or ()

    def _bindings(self, path: str, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        module = self.tree.module(path)
        found: list[Choice] = []
        failed: Unresolved | None = None
        units = [module.units[i] for i in module.bindings.get(chain[0], ())]
        for unit in _relevant(units, chain):
            under = tuple((path, b) for b in _branches(module, unit.branch))
            try:
                refs = self._binding(path, unit, chain)
            except Unresolved as error:
                if not _guarded(unit, chain[0]):
                    raise
                failed = error
                continue
            self._follow_conditions(path, unit.branch)
            found += [replace(choice, under=under + choice.under) for choice in refs]
        if not found:
            found = list(self._star(path, module, chain))
        if found:
            return tuple(found)
        if failed is not None:
            raise failed
        if hasattr(builtins, chain[0]) or chain[0] in _MODULE_NAMES:
            return (Choice(Outside(f"builtins.{chain[0]}")),)
        raise Unresolved(f"missing {chain[0]}")

    def _binding(self, path: str, unit: Unit, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        items = [i for i in unit.imports if i.bound == chain[0]]
        if unit.kind == "import":
            refs: tuple[Choice, ...] = ()
            for item in items:
                refs += self._imported(path, item, chain[1:])
                aliases = self.kept.setdefault(path, Kept()).aliases
                aliases.setdefault(unit.index, set()).add(item.bound)
            return refs
        if unit.kind == "class" and unit.plain_class and len(chain) > 1:
            units = self.tree.module(path).units
            members = [units[i] for i in unit.members.get(chain[1], ())]
            if members and all(m.flavour or m.kind == "other" for m in members):
                return self._members(path, unit, chain[1])
        found: tuple[Choice, ...] = ()
        for item in items:
            try:
                found += self._imported(path, item, chain[1:])
            except Unresolved:
                if not (item.guarded and chain[0] in unit.rebinds):
                    raise
        return (Choice(self.keep(path, unit)), *found)

    def _members(self, path: str, owner: Unit, name: str) -> tuple[Choice, ...]:
        """Members of a class, kept without the rest of it."""
        units = self.tree.module(path).units
        return tuple(Choice(self.keep(path, units[i])) for i in owner.members[name])

    def _star(self, path: str, module: ParsedModule, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        """The name as ``from module import *`` brings it in, from vLLM's modules and stand-ins."""
        if (path, chain[0]) in self._starring or chain[0].startswith("_"):
            return ()
        self._starring.add((path, chain[0]))
        try:
            for index in module.star_imports:
                refs = self._starred(path, module.units[index], chain)
                if refs:
                    return refs
        finally:
            self._starring.discard((path, chain[0]))
        return ()

    def _starred(self, path: str, unit: Unit, chain: tuple[str, ...]) -> tuple[Choice, ...]:
        for item in unit.imports:
            name = self._absolute(path, item)
            if name not in self.stand_ins and name.split(".")[0] != ROOT:
                continue
            try:
                refs = self._member(name, chain[0], chain[1:])
            except Unresolved:
                continue
            stars = self.kept.setdefault(path, Kept()).stars
            stars.setdefault(unit.index, set()).add(chain[0])
            return refs
        return ()

    # Modules ---------------------------------------------------------------------------------

    def _run_import(self, path: str, item: ImportedName) -> None:
        """An import a kept statement runs: it must succeed, or be caught."""
        module = self._absolute(path, item)
        try:
            if item.name is None:
                self._require_module(module)
            elif item.name != "*":
                self._member(module, item.name, (), value=False)
        except Unresolved:
            if not item.guarded:
                raise
            self.absent.add(module if item.name is None else f"{module}.{item.name}")

    def _imported(self, path: str, item: ImportedName, rest: tuple[str, ...]) -> tuple[Choice, ...]:
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
                raise Unresolved(f"missing {name}")
            path = self.tree.path_of(name)
            if path is not None:
                self.kept.setdefault(path, Kept())
        elif not self._is_module(name):
            self._require_package(name)

    def _require_package(self, name: str) -> None:
        top = name.split(".")[0]
        if top not in ALLOWED_PACKAGES and top not in sys.stdlib_module_names:
            raise Unresolved(f"missing {name}")

    def _attributes(self, module: str, rest: tuple[str, ...]) -> tuple[Choice, ...]:
        """A chain from a module object."""
        if rest:
            return self._member(module, rest[0], rest[1:])
        self._require_module(module)
        if module in self.stand_ins:
            return (self._stand_in(module, ()),)
        if module.split(".")[0] == ROOT:
            raise Unresolved(f"missing {module} (the module itself is used as a value)")
        return (Choice(Outside(module)),)

    def _member(
        self, module: str, name: str, rest: tuple[str, ...], value: bool = True
    ) -> tuple[Choice, ...]:
        """``name`` of a module: what it defines, or a submodule. ``value``: whether the result is
        used, or only has to be importable."""
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
                return self.name(path, (name, *rest))
        if not self._is_module(below):
            raise Unresolved(f"missing {below}")
        if value:
            return self._attributes(below, rest)
        self._require_module(below)
        return ()

    def _is_module(self, name: str) -> bool:
        if any(s == name or s.startswith(f"{name}.") for s in self.stand_ins):
            return True
        return name.split(".")[0] == ROOT and self.tree.path_of(name) is not None

    def _defines(self, path: str, name: str) -> bool:
        module = self.tree.module(path)
        if name in module.bindings:
            return True
        return bool(module.star_imports) and bool(self._star(path, module, (name,)))

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


def _class_name(unit: Unit) -> str:
    return next(iter(unit.names), "?")
