"""Atomic operations. Lanes at one address take effect one after the other, in lane order; a GPU
may take any order, which shows in the values returned and in sums of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.frames import Frame
from diffuzz.executors.ttir.ir import Op
from diffuzz.executors.ttir.ops.access import from_raw, rows_of, to_raw
from diffuzz.executors.ttir.ops.integers import ordered
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.sums import Rows
from diffuzz.executors.ttir.values import RAW, led, size_of, spread

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run

_COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "fadd": torch.add,
    "add": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
    "umax": lambda old, new: torch.where(ordered(old) > ordered(new), old, new),
    "umin": lambda old, new: torch.where(ordered(old) < ordered(new), old, new),
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "exch": lambda old, new: new,
}


def _in_turn(address: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Distinct addresses, each lane's position among them, and the lanes of each round: no
    address occurs twice in a round, and rounds keep the order of lanes."""
    distinct, where, counts = address.unique(  # type: ignore[no-untyped-call]
        return_inverse=True, return_counts=True
    )
    by_address = where.argsort(stable=True)
    start = counts.cumsum(0) - counts
    turn = torch.empty_like(where)
    turn[by_address] = torch.arange(len(where)) - start[where[by_address]]
    rounds = [(turn == k).nonzero().squeeze(1) for k in range(int(counts.max()))]
    return distinct, where, rounds


def _apply(
    run: Run,
    op: Op,
    elem: str,
    lanes: tuple[Tensor, Tensor],
    change: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Old values of active lanes; ``lanes`` are addresses and program ids, ``change`` maps (old
    values, lanes of the round) to new ones."""
    address, pids = lanes
    distinct, where, rounds = _in_turn(address)
    seen = torch.empty(address.shape, dtype=RAW[size_of(elem)])

    def combine(raw: Tensor) -> Tensor:
        current = raw.clone()
        for lane in rounds:
            at = where[lane]
            old = current[at]
            seen[lane] = old
            current[at] = to_raw(change(from_raw(old, elem), lane))
        return current

    first = torch.zeros_like(distinct).scatter_reduce_(
        0, where, torch.arange(len(where)), "amin", include_self=False
    )
    rows = Rows(distinct, 1, lambda: pids[first])
    run.memory.update(rows, size_of(elem), run.notice(op), combine)
    return from_raw(seen, elem)


@step("tt.atomic_rmw")
def read_modify_write(run: Run, op: Op, frame: Frame) -> Tensor:
    kind, how = op.result_types[0], op.words[0]
    if how not in _COMBINE:
        raise Unsupported(f"unsupported op tt.atomic_rmw {how}")
    address, value = (
        led(spread(frame[name], kind.shape), frame.programs) for name in op.operands[:2]
    )
    if len(op.operands) > 2:
        mask = led(spread(frame[op.operands[2]], kind.shape), frame.programs)
    else:
        mask = torch.ones(address.shape, dtype=torch.bool)
    old = torch.zeros(address.shape, dtype=value.dtype)
    if bool(mask.any()):
        operand = value[mask]
        pids = rows_of(frame, address).owner()[mask.reshape(-1)]
        combine = _COMBINE[how]
        old[mask] = _apply(
            run, op, kind.elem, (address[mask], pids), lambda o, lane: combine(o, operand[lane])
        )
    return old


@step("tt.atomic_cas")
def compare_and_swap(run: Run, op: Op, frame: Frame) -> Tensor:
    kind = op.result_types[0]
    address, expected, value = (
        led(spread(frame[name], kind.shape), frame.programs).reshape(-1) for name in op.operands[:3]
    )
    shape = (frame.programs, *kind.shape)
    pids = rows_of(frame, address.view(shape)).owner()
    old = _apply(
        run,
        op,
        kind.elem,
        (address, pids),
        lambda o, lane: torch.where(o == expected[lane], value[lane], o),
    )
    return old.view(shape)
