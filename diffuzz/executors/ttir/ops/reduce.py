"""Reductions and scans with their combiner regions.

The common combiners use torch's own reductions; any other runs its region on halves (reduce) or
on shifted copies (scan, Hillis and Steele). Neither order is the hardware's, which depends on its
layout: results that depend on the order are right within the error bound of any order. Integer
results, minima, maxima and ties between indices do not depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.frames import Frame, tensor
from diffuzz.executors.ttir.ir import Op
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.values import led, spread

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run


def _combiner(op: Op) -> str:
    """Name of the operation if the region is that one operation on its two arguments."""
    if op.memo is None:
        block = op.regions[0][0]
        first, last = block.ops[0], block.ops[-1]
        alone = len(block.ops) == 2 and len(block.args) == 2
        plain = alone and set(first.operands) == set(block.args) and last.operands == first.results
        op.memo = first.name if plain else ""
    return str(op.memo)


def _combine(
    run: Run, op: Op, frame: Frame, left: list[Tensor], right: list[Tensor]
) -> list[Tensor]:
    block = op.regions[0][0]
    inner = frame.child()
    inner.values.update(zip(block.args, [*left, *right], strict=True))
    return [tensor(value) for value in run.block(block, inner)]


def _whole(op: Op, frame: Frame) -> list[Tensor]:
    values = [
        spread(frame[name], kind.shape) for name, kind in zip(op.operands, op.types, strict=True)
    ]
    programs = max(v.shape[0] for v in values)
    return [led(v, programs) for v in values]


def _reduce_known(name: str, value: Tensor, axis: int) -> Tensor | None:
    if value.dtype == torch.bool:
        if name in ("arith.ori", "arith.andi"):
            return value.any(axis) if name == "arith.ori" else value.all(axis)
        return None
    if name == "arith.addf" and value.dtype in (torch.float32, torch.float64):
        return value.sum(axis)
    if name == "arith.addi":
        return value.sum(axis, dtype=torch.int64).to(value.dtype)
    if name in ("arith.maxsi", "arith.maximumf"):
        return value.amax(axis)
    if name in ("arith.minsi", "arith.minimumf"):
        return value.amin(axis)
    if name == "arith.maxnumf":
        return _ignoring_nan(value, axis, float("-inf"))
    if name == "arith.minnumf":
        return -_ignoring_nan(-value, axis, float("-inf"))
    return None


def _ignoring_nan(value: Tensor, axis: int, least: float) -> Tensor:
    largest = value.amax(axis)
    if bool(largest.isnan().any()):
        missing = value.isnan()
        largest = value.masked_fill(missing, least).amax(axis)
        largest = largest.masked_fill(missing.all(axis), float("nan"))
    return largest


@step("tt.reduce")
def reduce(run: Run, op: Op, frame: Frame) -> Tensor | list[Tensor]:
    axis = int(op.attrs["axis"]) + 1
    name = _combiner(op)
    if name and len(op.operands) == 1:
        known = _reduce_known(name, spread(frame[op.operands[0]], op.types[0].shape), axis)
        if known is not None:
            return known
    values = _whole(op, frame)
    size = values[0].shape[axis]
    if size & (size - 1):
        raise Unsupported("unsupported op tt.reduce of a length that is no power of two")
    while size > 1:
        size //= 2
        left = [v.narrow(axis, 0, size) for v in values]
        right = [v.narrow(axis, size, size) for v in values]
        values = _combine(run, op, frame, left, right)
    values = [v.squeeze(axis) for v in values]
    return values[0] if len(op.results) == 1 else values


@step("tt.scan")
def scan(run: Run, op: Op, frame: Frame) -> Tensor | list[Tensor]:
    axis = int(op.attrs["axis"]) + 1
    values = _whole(op, frame)
    backwards = op.attrs.get("reverse") is True
    if backwards:
        values = [v.flip(axis) for v in values]
    first = values[0]
    name = _combiner(op) if len(values) == 1 else ""
    if name == "arith.addi" and first.dtype != torch.bool:
        values = [first.cumsum(axis, dtype=torch.int64).to(first.dtype)]
    elif name == "arith.addf" and first.dtype in (torch.float32, torch.float64):
        values = [first.cumsum(axis)]
    else:
        values = _scan_by_doubling(run, op, frame, values, axis)
    if backwards:
        values = [v.flip(axis) for v in values]
    return values[0] if len(op.results) == 1 else values


def _scan_by_doubling(
    run: Run, op: Op, frame: Frame, values: list[Tensor], axis: int
) -> list[Tensor]:
    size, distance = values[0].shape[axis], 1
    while distance < size:
        left = [v.narrow(axis, 0, size - distance) for v in values]
        right = [v.narrow(axis, distance, size - distance) for v in values]
        joined = _combine(run, op, frame, left, right)
        values = [
            torch.cat([v.narrow(axis, 0, distance), j], axis)
            for v, j in zip(values, joined, strict=True)
        ]
        distance *= 2
    return values
