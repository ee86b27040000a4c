"""Loads and stores: which lanes are active, at which addresses, and where a fault is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.frames import Frame
from diffuzz.executors.ttir.ir import Op, Type
from diffuzz.executors.ttir.memory import Notice
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.values import HOLD, RAW, broadcast, led, ranked, size_of, spread

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run


def from_raw(raw: Tensor, elem: str) -> Tensor:
    dtype = HOLD[elem]
    return raw != 0 if dtype == torch.bool else raw.view(dtype)


def to_raw(value: Tensor) -> Tensor:
    if value.dtype == torch.bool:
        return value.to(torch.uint8)
    return value.contiguous().view(RAW[value.element_size()])


@step("tt.addptr")
def add_to_pointer(run: Run, op: Op, frame: Frame) -> Tensor:
    pointer, offset = frame[op.operands[0]], frame[op.operands[1]]
    size = size_of(op.types[0].pointee)
    # The offset wraps at its own width before it gets here; addresses are 64-bit.
    return pointer + (offset.long() * size if size != 1 else offset)


def owners_of(frame: Frame, lanes: Tensor) -> Tensor:
    """Linear program ids that broadcast against ``lanes`` (an address tensor)."""
    pids = frame.pids if lanes.shape[0] == frame.programs else frame.pids[:1]
    return ranked(pids, lanes.dim() - 1)


def fill_for(elem: str) -> int:
    """What a lane without memory reads: NaN in floats, 0 in integers."""
    return -1 if HOLD[elem].is_floating_point or elem.startswith("f8") else 0


@step("tt.load")
def load(run: Run, op: Op, frame: Frame) -> Tensor:
    kind = op.result_types[0]
    size = size_of(kind.elem)
    address = frame[op.operands[0]]
    fill = fill_for(kind.elem)
    if len(op.operands) > 1:
        mask = frame[op.operands[1]]
        if not bool(mask.all()):
            return _load_masked(run, op, frame, kind, address, mask)
    pids = owners_of(frame, address)
    notice = run.notice(op, pids.expand(address.shape))
    return from_raw(run.memory.load(address, size, pids, fill, notice), kind.elem)


def _load_masked(
    run: Run, op: Op, frame: Frame, kind: Type, address: Tensor, mask: Tensor
) -> Tensor:
    size = size_of(kind.elem)
    if len(op.operands) > 2:
        other = to_raw(frame[op.operands[2]])
    else:
        unread = -1 if run.knobs.masked_load == "poison" and fill_for(kind.elem) else 0
        other = torch.full([1] * (len(kind.shape) + 1), unread).to(RAW[size])
    if not bool(mask.any()):
        return from_raw(other, kind.elem)
    rank = len(kind.shape)
    address, mask = broadcast(ranked(address, rank), ranked(mask, rank))
    # Inactive lanes go where an active one goes, and their result is dropped.
    first = int(mask.reshape(-1).to(torch.uint8).argmax())
    safe = torch.where(mask, address, address.reshape(-1)[first])
    pids = owners_of(frame, safe)
    owner = torch.where(mask, pids, pids.expand(safe.shape).reshape(-1)[first])
    notice = run.notice(op, owner)
    got = run.memory.load(safe, size, owner, fill_for(kind.elem), notice)
    return from_raw(torch.where(mask, got, other), kind.elem)


@step("tt.store")
def store(run: Run, op: Op, frame: Frame) -> list[Tensor]:
    kind = op.types[0]
    address = led(spread(frame[op.operands[0]], kind.shape), frame.programs)
    raw = to_raw(frame[op.operands[1]])
    value = led(spread(raw, kind.shape), frame.programs)
    pids = owners_of(frame, address).expand(address.shape)
    if len(op.operands) > 2:
        mask = led(spread(frame[op.operands[2]], kind.shape), frame.programs)
        if not bool(mask.all()):
            address, value, pids = address[mask], value[mask], pids[mask]
    address, value, pids = address.reshape(-1), value.reshape(-1), pids.reshape(-1)
    notice: Notice = run.notice(op, pids)
    run.memory.store(address, value, size_of(kind.pointee), pids, notice)
    return []
