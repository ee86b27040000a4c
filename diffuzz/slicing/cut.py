"""Taking a target's entries out of a revision: find them, follow them, mask, hash."""

from __future__ import annotations

from collections.abc import Sequence

from diffuzz.slicing.closure import Closure
from diffuzz.slicing.identity import definition_digests, slice_hash
from diffuzz.slicing.masking import masked
from diffuzz.slicing.module import ParsedModule, Unit
from diffuzz.slicing.resolution import Node
from diffuzz.slicing.result import EntryPoint, Missing, Parameter, Slice
from diffuzz.slicing.standins import StandInModule, parse_stand_ins
from diffuzz.slicing.tree import ROOT, ModuleCache, Tree, Unresolved, module_name
from diffuzz.sources import Source
from diffuzz.target import Entry, StandIns

CACHE = ModuleCache()
"""Parsed modules of this process, shared by all slices."""


def slice_target(
    source: Source,
    target_name: str,
    entries: Sequence[Entry],
    stand_ins: StandIns,
    extra: Sequence[str] = (),
    cache: ModuleCache = CACHE,
) -> Slice | Missing:
    """The slice of ``entries`` at the revision ``source`` reads, or why there is none.

    ``extra`` are strings that take part in the identity, such as hashes of native sources. Raises
    :class:`~diffuzz.errors.UsageError` for stand-ins that are not Python, and what the source
    raises when it cannot be read.
    """
    tree = Tree(source, cache)
    closure = Closure(tree, parse_stand_ins(stand_ins.modules))
    found: dict[str, EntryPoint] = {}
    roots: list[tuple[str, list[Node]]] = []
    try:
        for entry in entries:
            point = _find(tree, entry)
            if point is None:
                continue
            path, symbol, units = point
            nodes = [closure.found.keep(path, unit) for unit in units]
            roots.append((entry.name, nodes))
            found[entry.name] = _entry_point(path, symbol, units)
        if not found:
            raise Unresolved("none of the entries exists")
        closure.run()
        reached = _reached(closure)
    except Unresolved as error:
        return Missing(str(error), frozenset(tree.looked_up.items()))
    except RecursionError:
        return Missing("cannot parse: nested too deeply", frozenset(tree.looked_up.items()))
    return Slice(
        target=target_name,
        hash=slice_hash(closure, roots, [*extra, *(s.digest for s in reached.values())]),
        entries=found,
        definitions=definition_digests(closure),
        files={p: masked(tree.module(p), k) for p, k in sorted(closure.found.kept.items())},
        dependencies=frozenset(tree.looked_up.items()),
        ops=tuple(sorted(closure.ops)),
        stand_ins={name: reached[name].text for name in sorted(reached)},
        absent=tuple(sorted(closure.found.absent)),
        annotated={path: tuple(sorted(lines)) for path, lines in closure.annotated.items()},
    )


def holds(result: Slice | Missing, source: Source) -> bool:
    """Whether slicing again at ``source``'s revision would give the same: every file that was
    looked at is the same there, and none has appeared that was looked for."""
    return all(source.blob_id(path) == blob for path, blob in result.dependencies)


def _find(tree: Tree, entry: Entry) -> tuple[str, str, list[Unit]] | None:
    """Path, symbol and units of the first place that defines the entry."""
    exists: str | None = None
    for path in entry.paths:
        if not tree.has(path):
            continue
        exists = exists or path
        module = tree.module(path)
        for symbol in entry.symbols:
            units = _defining(module, symbol)
            if units:
                return path, symbol, units
    if entry.optional:
        return None
    if exists is None:
        raise Unresolved(f"no file {entry.paths[0]}")
    raise Unresolved(f"no symbol {entry.symbols[0]} in {exists}")


def _defining(module: ParsedModule, symbol: str) -> list[Unit]:
    name, _, member = symbol.partition(".")
    units = [module.units[i] for i in module.bindings.get(name, ())]
    units = [u for u in units if u.kind != "import"]
    if not member:
        return units
    return [module.units[i] for u in units for i in u.members.get(member, ())]


def _entry_point(path: str, symbol: str, units: Sequence[Unit]) -> EntryPoint:
    last = units[-1]
    parameters = None
    if last.parameters is not None:
        parameters = tuple(Parameter(*p) for p in last.parameters)
    line = (last.definition if last.definition[0] else last.span.start)[0]
    return EntryPoint(path, symbol, line, module_name(path), parameters)


def _reached(closure: Closure) -> dict[str, StandInModule]:
    """The stand-ins in use, those included that stand-ins import themselves."""
    declared = closure.found.stand_ins
    todo = list(closure.found.used_stand_ins)
    reached: dict[str, StandInModule] = {}
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached[name] = declared[name]
        for item in declared[name].imports:
            modules = {item.module, f"{item.module}.{item.name}"} & set(declared)
            if not modules and item.module.split(".")[0] == ROOT:
                raise Unresolved(f"missing {item.module} (imported by the stand-in {name})")
            todo += sorted(modules)
    return reached
