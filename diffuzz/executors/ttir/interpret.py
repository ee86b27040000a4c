"""Running a planned kernel for a set of programs: blocks, branches and calls.

Structured control flow (``scf``) is in :mod:`.ops.control`; what is here is the order of
operations and Triton's early returns, which reach the IR as forward branches between blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.frames import Frame, Value, merged, picked
from diffuzz.executors.ttir.ir import Block, Op
from diffuzz.executors.ttir.knobs import Knobs
from diffuzz.executors.ttir.locations import locate
from diffuzz.executors.ttir.memory import Memory
from diffuzz.executors.ttir.plan import Plan
from diffuzz.executors.ttir.watch import Fault, Notice
from diffuzz.outcome import Location, Report

Grid = tuple[int, int, int]


class Run:
    """One launch in progress."""

    def __init__(
        self, plan: Plan, memory: Memory, grid: Grid, knobs: Knobs, root: str | None = None
    ) -> None:
        self.plan = plan
        self.memory = memory
        self.grid = grid
        self.knobs = knobs
        self.root = root
        self.printed: list[str] = []
        self.reports: list[Report] = []
        self._reported: set[tuple[int, str, str]] = set()

    def locate(self, op: Op) -> Location | None:
        return locate(self.plan.module, op, self.root)

    def notice(self, op: Op) -> Notice:
        """Where the sanitizer tells what it saw at ``op``. Each kind is reported once per
        operation and argument. Races between programs that synchronise are not: whether their
        atomics order the accesses is not known here."""

        def heard(fault: Fault) -> None:
            if self.plan.synchronises and fault.other not in (None, fault.program):
                return
            key = (id(op), fault.kind, fault.argument)
            if key in self._reported:
                return
            self._reported.add(key)
            first = None if fault.program is None else self.program(fault.program)
            message = fault.message
            if fault.other is not None:
                message += f", programs {first} and {self.program(fault.other)}"
            self.reports.append(Report(fault.kind, message, fault.argument, self.locate(op), first))

        return heard

    def program(self, linear: int) -> tuple[int, int, int]:
        """Program id (x, y, z) of a linear program number."""
        x, y, _ = self.grid
        return linear % x, linear // x % y, linear // (x * y)

    def call(self, function: Op, values: Sequence[Value], pids: Tensor) -> list[Value]:
        """Run a function for the programs ``pids`` and return its results."""
        frame = Frame(pids)
        frame.values.update(zip(function.operands, values, strict=True))
        blocks = function.regions[0]
        if len(blocks) == 1:
            return self.block(blocks[0], frame)
        return _Branches(self, blocks, frame).run()

    def block(self, block: Block, frame: Frame, keep: bool = False) -> list[Value]:
        """Run a block; returns the values its terminator passes on. ``keep`` leaves values alive
        that later blocks of the function may use."""
        values = frame.values
        for op in block.ops[:-1]:
            step = op.step
            assert step is not None
            result = step(self, op, frame)
            if len(op.results) == 1:
                values[op.results[0]] = result
            else:
                for name, value in zip(op.results, result, strict=True):
                    values[name] = value
            if not keep:
                for name in op.kill:
                    values.pop(name, None)
        passed = [frame.raw(name) for name in block.terminator.operands]
        if not keep:
            for name in block.terminator.kill:
                values.pop(name, None)
        return passed


class _Branches:
    """Blocks joined by forward branches. They run in topological order, each with the programs
    that reach it; values of dominating blocks are found through the chain of frames."""

    def __init__(self, run: Run, blocks: list[Block], frame: Frame) -> None:
        self.launch = run
        self.blocks = _topological(blocks)
        self.order = {b.label: k for k, b in enumerate(self.blocks)}
        self.dominator = _dominators(self.blocks, self.order)
        self.frame = frame
        # Per block: (positions among all programs, values for the block's arguments).
        self.arrivals: dict[int, list[tuple[Tensor, list[Value]]]] = {}
        self.entered: dict[int, tuple[Frame, Tensor]] = {}
        self.returned: list[tuple[Tensor, list[Value]]] = []

    def run(self) -> list[Value]:
        for at, block in enumerate(self.blocks):
            if at == 0:
                frame, positions = self.frame, torch.arange(self.frame.programs)
            elif at in self.arrivals:
                frame, positions = self.enter(at, block)
            else:
                continue
            self.entered[at] = frame, positions
            passed = self.launch.block(block, frame, keep=True)
            self.leave(at, block.terminator, frame, positions, passed)
        first = self.returned[0][1]
        if len(self.returned) == 1:
            return first
        programs = self.frame.programs
        return [
            merged(programs, [(where, values[k]) for where, values in self.returned])
            for k in range(len(first))
        ]

    def enter(self, at: int, block: Block) -> tuple[Frame, Tensor]:
        arrivals = self.arrivals.pop(at)
        positions = torch.cat([where for where, _ in arrivals]).sort().values
        base, base_positions = self.entered[self.dominator[at]]
        if len(positions) == len(base_positions):
            frame = base.child()
        else:
            frame = base.part(torch.searchsorted(base_positions, positions))
        for k, name in enumerate(block.args):
            if len(arrivals) == 1:
                frame.values[name] = arrivals[0][1][k]
                continue
            parts = [
                (torch.searchsorted(positions, where), values[k]) for where, values in arrivals
            ]
            frame.values[name] = merged(len(positions), parts)
        return frame, positions

    def leave(self, at: int, end: Op, frame: Frame, positions: Tensor, passed: list[Value]) -> None:
        if end.name == "tt.return":
            self.returned.append((positions, passed))
            return
        if end.name == "cf.br":
            targets: list[tuple[tuple[str, list[str]], Tensor | None]] = [(end.successors[0], None)]
        elif end.name == "cf.cond_br":
            condition = frame[end.operands[0]]
            if condition.shape[0] == 1 or bool(condition.all()) or not bool(condition.any()):
                taken = 0 if bool(condition[0]) else 1
                targets = [(end.successors[taken], None)]
            else:
                targets = [
                    (end.successors[0], condition.nonzero().squeeze(1)),
                    (end.successors[1], (~condition).nonzero().squeeze(1)),
                ]
        else:
            raise Unsupported(f"unsupported op {end.name}")
        for (label, names), index in targets:
            values = [frame.raw(name) for name in names]
            where = positions
            if index is not None:
                values = [picked(v, index) for v in values]
                where = positions[index]
            self.arrivals.setdefault(self.order[label], []).append((where, values))


def _topological(blocks: list[Block]) -> list[Block]:
    by_label = {b.label: b for b in blocks}
    done: dict[str, bool] = {}
    ordered: list[Block] = []

    def visit(block: Block) -> None:
        done[block.label] = False
        for label, _ in reversed(block.terminator.successors):
            if label not in done:
                visit(by_label[label])
            elif not done[label]:
                raise Unsupported("unsupported op cf.br (backwards)")
        done[block.label] = True
        ordered.append(block)

    visit(blocks[0])
    return ordered[::-1]


def _dominators(blocks: list[Block], order: dict[str, int]) -> dict[int, int]:
    """Immediate dominator of each block by position (blocks are in topological order)."""
    before: dict[int, set[int]] = {k: set() for k in range(len(blocks))}
    for k, block in enumerate(blocks):
        for label, _ in block.terminator.successors:
            before[order[label]].add(k)
    above: dict[int, set[int]] = {0: {0}}
    for k in range(1, len(blocks)):
        above[k] = set.intersection(*(above[p] for p in before[k])) | {k}
    return {k: max(above[k] - {k}) for k in range(1, len(blocks))}
