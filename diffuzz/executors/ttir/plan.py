"""What can be known about a kernel before its first launch: which function runs each operation,
where values die, how large they get, and which arguments are written through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.ir import Block, Module, Op
from diffuzz.executors.ttir.values import held, type_bytes

_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
_WRITES = ("tt.store", *_ATOMICS)
_STRUCTURE = frozenset(
    {
        "scf.yield",
        "scf.condition",
        "tt.return",
        "cf.br",
        "cf.cond_br",
        "tt.reduce.return",
        "tt.scan.return",
        "tt.map_elementwise.return",
        "ub.unreachable",
        "tt.func",
    }
)


@dataclass(frozen=True)
class Plan:
    """A module ready to run. ``widest`` is the size in bytes of the largest value of one
    program; ``written`` the entry arguments that stores or atomics may reach; ``synchronises``
    says that atomics with acquire or release semantics may order plain accesses of programs."""

    module: Module
    widest: int
    written: frozenset[str]
    synchronises: bool


def plan(module: Module) -> Plan:
    """Resolve every operation. :class:`Unsupported` names the first one nobody can run."""
    from diffuzz.executors.ttir.ops import STEPS

    widest = 1
    for op in module.walk():
        if op.name in _STRUCTURE:
            continue
        if op.name not in STEPS:
            raise Unsupported(f"unsupported op {op.name}")
        op.step = STEPS[op.name]
        for kind in op.result_types:
            held(kind.elem)
            widest = max(widest, type_bytes(kind))
    for function in module.functions.values():
        for block in _all_blocks(function):
            _mark_deaths(block)
    synchronises = any(op.name in _ATOMICS and "relaxed" not in op.words for op in module.walk())
    return Plan(module, widest, frozenset(_written(module)), synchronises)


def _all_blocks(op: Op) -> Iterator[Block]:
    for block in op.blocks():
        yield block
        for inner in block.ops:
            yield from _all_blocks(inner)


def _uses(op: Op) -> set[str]:
    names = set(op.operands)
    for _, passed in op.successors:
        names.update(passed)
    for block in op.blocks():
        for inner in block.ops:
            names |= _uses(inner)
    return names


def _mark_deaths(block: Block) -> None:
    """Each value defined in ``block`` dies after its last use there (nested uses count)."""
    last: dict[str, int] = {}
    for at, op in enumerate(block.ops):
        for name in _uses(op):
            last[name] = at
    dying: dict[int, list[str]] = {}
    for at, op in enumerate(block.ops):
        for name in op.results:
            dying.setdefault(last.get(name, at), []).append(name)
    for name in block.args:
        if name in last:
            dying.setdefault(last[name], []).append(name)
    for at, names in dying.items():
        block.ops[at].kill = tuple(names)


def _written(module: Module) -> set[str]:
    """Entry arguments a store or atomic may write through: a walk back over pointer values."""
    kernel = module.kernel
    sources: dict[str, list[str]] = {}
    targets: list[str] = []
    for block in _all_blocks(kernel):
        for op in block.ops:
            _pointer_flow(op, sources)
            if op.name in _WRITES:
                targets.append(op.operands[0])
            elif op.name == "tt.call":
                targets += op.operands
            for label, passed in op.successors:
                for other in kernel.regions[0]:
                    if other.label == label:
                        _flow(sources, other.args, passed)
    reached: set[str] = set()
    while targets:
        name = targets.pop()
        if name not in reached:
            reached.add(name)
            targets += sources.get(name, ())
    return reached & set(kernel.operands)


def _flow(sources: dict[str, list[str]], into: Iterable[str], out_of: Iterable[str]) -> None:
    for name, source in zip(into, out_of, strict=False):
        sources.setdefault(name, []).append(source)


def _pointer_flow(op: Op, sources: dict[str, list[str]]) -> None:
    regions = [region[0] for region in op.regions]
    if op.name == "scf.for":
        carried, yielded = op.operands[3:], regions[0].terminator.operands
        _flow(sources, regions[0].args[1:], carried)
        _flow(sources, regions[0].args[1:], yielded)
        _flow(sources, op.results, carried)
        _flow(sources, op.results, yielded)
    elif op.name == "scf.while":
        passed, yielded = regions[0].terminator.operands[1:], regions[1].terminator.operands
        _flow(sources, regions[0].args, op.operands)
        _flow(sources, regions[0].args, yielded)
        _flow(sources, regions[1].args, passed)
        _flow(sources, op.results, passed)
    elif op.name == "scf.if":
        for region in regions:
            _flow(sources, op.results, region.terminator.operands)
    elif op.result_types and any(t.is_pointer for t in op.result_types):
        for name in op.results:
            sources.setdefault(name, []).extend(op.operands)
