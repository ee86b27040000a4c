"""Operations that only move values. Broadcasting is free: axes of length 1 stay that way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.frames import Frame, Value
from diffuzz.executors.ttir.ir import Op
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.sums import Sum
from diffuzz.executors.ttir.values import broadcast, led, ranked, spread

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run


@step("tt.splat")
def splat(run: Run, op: Op, frame: Frame) -> Value:
    value, rank = frame.raw(op.operands[0]), len(op.result_types[0].shape)
    return value.ranked(rank) if isinstance(value, Sum) else ranked(value, rank)


@step("tt.unsplat")
def unsplat(run: Run, op: Op, frame: Frame) -> Tensor:
    value = frame[op.operands[0]]
    return value.reshape(value.shape[0])


@step("tt.broadcast")
def broadcast_(run: Run, op: Op, frame: Frame) -> Value:
    return frame.raw(op.operands[0])


@step("tt.expand_dims")
def expand_dims(run: Run, op: Op, frame: Frame) -> Value:
    value, axis = frame.raw(op.operands[0]), op.attrs["axis"] + 1
    return value.unsqueezed(axis) if isinstance(value, Sum) else value.unsqueeze(axis)


@step("tt.reshape")
def reshape(run: Run, op: Op, frame: Frame) -> Tensor:
    value = frame[op.operands[0]]
    target = op.result_types[0].shape
    if value.numel() == value.shape[0]:
        return value.reshape(-1, *[1] * len(target))
    return spread(value, op.types[0].shape).reshape(-1, *target)


@step("tt.trans")
def transpose(run: Run, op: Op, frame: Frame) -> Tensor:
    return frame[op.operands[0]].permute(0, *[axis + 1 for axis in op.attrs["order"]])


@step("tt.join")
def join(run: Run, op: Op, frame: Frame) -> Tensor:
    a, b = broadcast(*(frame[name] for name in op.operands))
    return torch.stack([a, b], -1)


@step("tt.split")
def split(run: Run, op: Op, frame: Frame) -> list[Tensor]:
    value = frame[op.operands[0]]
    return [value[..., 0], value[..., -1]]


@step("tt.cat")
def cat(run: Run, op: Op, frame: Frame) -> Tensor:
    shape = op.types[0].shape
    a, b = (spread(frame[name], shape) for name in op.operands)
    programs = max(a.shape[0], b.shape[0])
    return torch.cat([led(a, programs), led(b, programs)], 1)


@step("tt.gather")
def gather(run: Run, op: Op, frame: Frame) -> Tensor:
    source, index = (
        spread(frame[name], kind.shape) for name, kind in zip(op.operands, op.types, strict=True)
    )
    programs = max(source.shape[0], index.shape[0])
    axis = op.attrs["axis"] + 1
    where = led(index, programs).long()
    if bool(((where < 0) | (where >= source.shape[axis])).any()):
        raise Unsupported("tt.gather with an index outside its axis")
    return torch.gather(led(source, programs), axis, where)


@step("tt.histogram")
def histogram(run: Run, op: Op, frame: Frame) -> Tensor:
    shape, bins = op.types[0].shape, op.result_types[0].shape[0]
    value = spread(frame[op.operands[0]], shape).long()
    counted = (value >= 0) & (value < bins)
    if len(op.operands) > 1:
        value, counted = broadcast(value, counted & frame[op.operands[1]])
    counts = torch.zeros(value.shape[0], bins, dtype=torch.int64)
    counts.scatter_add_(1, value.clamp(0, bins - 1), counted.long())
    return counts.to(torch.int32)
