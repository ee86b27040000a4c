"""Structured control flow by active subsets.

A branch or loop on a condition that all programs share runs once, in the frame it stands in.
Otherwise the programs are parted, each part runs with its own frame, and the results are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import KernelFault, Unsupported
from diffuzz.executors.ttir.frames import Frame, Value, merged, picked
from diffuzz.executors.ttir.ir import Block, Op
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.values import distinct, led

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run

Values = list[Value]
_WAITS = frozenset({"tt.atomic_rmw", "tt.atomic_cas"})


def _merge_all(programs: int, parts: list[tuple[Tensor, Values]]) -> Values:
    if len(parts) == 1:
        return parts[0][1]
    return [
        merged(programs, [(at, values[k]) for at, values in parts]) for k in range(len(parts[0][1]))
    ]


@step("scf.if")
def if_(run: Run, op: Op, frame: Frame) -> Value | Values:
    condition = frame[op.operands[0]]
    if condition.shape[0] == 1 or bool(condition.all()) or not bool(condition.any()):
        taken = 0 if bool(condition[0]) else 1
        passed = run.block(op.regions[taken][0], frame) if taken < len(op.regions) else []
        return passed[0] if len(op.results) == 1 else passed
    parts: list[tuple[Tensor, Values]] = []
    for region, chosen in zip(op.regions, (condition, ~condition), strict=False):
        index = chosen.nonzero().squeeze(1)
        parts.append((index, run.block(region[0], frame.part(index))))
    values = _merge_all(frame.programs, parts) if op.results else []
    return values[0] if len(op.results) == 1 else values


@step("scf.for")
def for_(run: Run, op: Op, frame: Frame) -> Value | Values:
    if op.words:
        raise Unsupported("unsupported op scf.for unsigned")
    lower, upper, stride = (frame[name] for name in op.operands[:3])
    values = [frame.raw(name) for name in op.operands[3:]]
    if bool((stride <= 0).any()):
        message = "loop step is not positive"
        raise KernelFault("hang", message, run.locate(op), run.program(int(frame.pids[0])))
    if lower.shape[0] == upper.shape[0] == stride.shape[0] == 1:
        values = _for_together(run, op, frame, (int(lower), int(upper), int(stride)), values)
    else:
        values = _for_apart(run, op, frame, (lower, upper, stride), values)
    return values[0] if len(op.results) == 1 else values


def _for_together(
    run: Run, op: Op, frame: Frame, bounds: tuple[int, int, int], values: Values
) -> Values:
    body = op.regions[0][0]
    dtype = frame[op.operands[0]].dtype
    for k in range(*bounds):
        frame.values[body.args[0]] = torch.tensor([k], dtype=dtype)
        frame.values.update(zip(body.args[1:], values, strict=True))
        values = run.block(body, frame)
    return values


def _for_apart(
    run: Run, op: Op, frame: Frame, bounds: tuple[Tensor, Tensor, Tensor], values: Values
) -> Values:
    """A loop whose trip count differs between programs: those that are done leave."""
    body = op.regions[0][0]
    dtype = bounds[0].dtype
    lower, upper, stride = (led(b, frame.programs).long() for b in bounds)
    trips = (upper - lower + stride - 1).div(stride, rounding_mode="floor").clamp_(min=0)
    active, inner = torch.arange(frame.programs), frame
    finished: list[tuple[Tensor, Values]] = []
    turn = 0
    for stop in distinct(trips).tolist():
        start, pace = lower[active], stride[active]
        same = bool((start == start[0]).all()) and bool((pace == pace[0]).all())
        if same:
            start, pace = start[:1], pace[:1]
        while turn < stop:
            inner.values[body.args[0]] = (start + turn * pace).to(dtype)
            inner.values.update(zip(body.args[1:], values, strict=True))
            values = run.block(body, inner)
            turn += 1
        leaving = trips[active] == stop
        if bool(leaving.all()):
            finished.append((active, values))
            break
        out, stay = leaving.nonzero().squeeze(1), (~leaving).nonzero().squeeze(1)
        finished.append((active[out], [picked(v, out) for v in values]))
        active = active[stay]
        values = [picked(v, stay) for v in values]
        inner = frame.part(active)
    return _merge_all(frame.programs, finished)


@step("scf.while")
def while_(run: Run, op: Op, frame: Frame) -> Value | Values:
    before, after = op.regions[0][0], op.regions[1][0]
    values = [frame.raw(name) for name in op.operands]
    active, inner = torch.arange(frame.programs), frame
    finished: list[tuple[Tensor, Values]] = []
    for _ in range(run.knobs.max_iterations):
        inner.values.update(zip(before.args, values, strict=True))
        first, *passed = run.block(before, inner)
        assert isinstance(first, Tensor)
        condition = led(first, len(active))
        if not bool(condition.any()):
            finished.append((active, passed))
            break
        if not bool(condition.all()):
            out, stay = (~condition).nonzero().squeeze(1), condition.nonzero().squeeze(1)
            finished.append((active[out], [picked(v, out) for v in passed]))
            passed = [picked(v, stay) for v in passed]
            active = active[stay]
            inner = frame.part(active)
        inner.values.update(zip(after.args, passed, strict=True))
        values = run.block(after, inner)
    else:
        _endless(run, op, inner)
    values = _merge_all(frame.programs, finished)
    return values[0] if len(op.results) == 1 else values


def _endless(run: Run, op: Op, frame: Frame) -> None:
    """A loop that waits for other programs may end on a GPU; one that does not is a hang."""
    if _contains(op, _WAITS):
        raise Unsupported("programs wait for each other")
    message = f"while loop still running after {run.knobs.max_iterations} iterations"
    raise KernelFault("hang", message, run.locate(op), run.program(int(frame.pids[0])))


def _contains(op: Op, names: frozenset[str]) -> bool:
    inner: list[Block] = list(op.blocks())
    return any(o.name in names or _contains(o, names) for block in inner for o in block.ops)


@step("tt.call")
def call(run: Run, op: Op, frame: Frame) -> Value | Values:
    function = run.plan.module.functions[op.symbol]
    returned = run.call(function, [frame.raw(name) for name in op.operands], frame.pids)
    return returned[0] if len(op.results) == 1 else returned
