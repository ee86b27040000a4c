"""Operations that make values from nothing: constants, program ids, ranges."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from diffuzz.executors.ttir.frames import Frame
from diffuzz.executors.ttir.ir import Op, Type
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.values import FORMAT, FP8, HOLD, RAW, wrapped
from diffuzz.numerics.formats import encode

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run

_AXES = "xyz"


def literal(text: str, kind: Type) -> Tensor:
    """Tensor of one element (no axes) holding a scalar literal of the element type."""
    dtype = HOLD[kind.elem]
    text = text.strip()
    if text in ("true", "false"):
        return torch.tensor(text == "true")
    if kind.elem.startswith("i"):
        if kind.elem == "i1":
            return torch.tensor(int(text, 0) != 0)
        return torch.tensor(wrapped(int(text, 0), 8 * dtype.itemsize), dtype=dtype)
    if text.lower().startswith("0x"):
        bits = int(text, 16)
        if dtype is torch.uint8:
            return torch.tensor(bits, dtype=dtype)
        return torch.tensor(wrapped(bits, 8 * dtype.itemsize), dtype=RAW[dtype.itemsize]).view(
            dtype
        )
    if kind.elem in FP8:
        code = encode(torch.tensor(float(text), dtype=torch.float64), FORMAT[kind.elem])
        return code.to(torch.uint8)
    return torch.tensor(float(text), dtype=torch.float64).to(dtype)


@step("arith.constant")
def constant(run: Run, op: Op, frame: Frame) -> Tensor:
    if op.memo is None:
        kind, text = op.result_types[0], op.attrs["value"].strip()
        if text.startswith("dense<"):
            text = text[6:-1]
        if text.startswith("["):
            flat = torch.stack([literal(str(x).lower(), kind) for x in _flat(json.loads(text))])
            op.memo = flat.reshape(1, *kind.shape)
        else:
            op.memo = literal(text, kind).reshape([1] * (1 + len(kind.shape)))
    return cast(Tensor, op.memo)


def _flat(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        found += _flat(item) if isinstance(item, list) else [item]
    return found


@step("ub.poison")
def poison(run: Run, op: Op, frame: Frame) -> Tensor:
    kind = op.result_types[0]
    dtype = HOLD[kind.elem]
    value = float("nan") if dtype.is_floating_point else 0
    return torch.full([1] * (1 + len(kind.shape)), value, dtype=dtype)


@step("tt.get_program_id")
def program_id(run: Run, op: Op, frame: Frame) -> Tensor:
    axis = _AXES.index(op.words[0])
    x, y, _ = run.grid
    pids = frame.pids
    if run.grid[axis] == 1:
        return torch.zeros(1, dtype=torch.int32)
    if axis == 0:
        return pids % x
    if axis == 1:
        return pids.div(x, rounding_mode="floor") % y
    return pids.div(x * y, rounding_mode="floor")


@step("tt.get_num_programs")
def num_programs(run: Run, op: Op, frame: Frame) -> Tensor:
    return torch.tensor([run.grid[_AXES.index(op.words[0])]], dtype=torch.int32)


@step("tt.make_range")
def make_range(run: Run, op: Op, frame: Frame) -> Tensor:
    if op.memo is None:
        op.memo = torch.arange(op.attrs["start"], op.attrs["end"], dtype=torch.int32).unsqueeze(0)
    return cast(Tensor, op.memo)
