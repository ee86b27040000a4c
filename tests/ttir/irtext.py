"""Running hand-written Triton IR, so that each operation can be tested alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from diffuzz.executors.ttir.interpret import Run
from diffuzz.executors.ttir.knobs import Knobs
from diffuzz.executors.ttir.memory import Memory
from diffuzz.executors.ttir.plan import plan
from diffuzz.executors.ttir.reader import read

ELEM = {
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e4m3fnuz: "f8E4M3FNUZ",
    torch.float8_e5m2: "f8E5M2",
    torch.float8_e5m2fnuz: "f8E5M2FNUZ",
}


def execute(
    text: str,
    tensors: Sequence[Tensor],
    grid: tuple[int, int, int] = (1, 1, 1),
    knobs: Knobs | None = None,
) -> Run:
    """Run the module's public function on pointers to ``tensors`` for all programs of a grid."""
    planned = plan(read(text))
    memory = Memory()
    addresses = [torch.tensor([memory.add(f"arg{k}", t, True)]) for k, t in enumerate(tensors)]
    run = Run(planned, memory, grid, knobs or Knobs())
    programs = grid[0] * grid[1] * grid[2]
    pids = torch.arange(programs, dtype=torch.int32)
    run.call(planned.module.kernel, addresses, pids)
    return run


def function(pointers: Sequence[torch.dtype], body: str) -> str:
    """A module with one function of pointer arguments ``%p0``, ``%p1``, ..."""
    args = ", ".join(f"%p{k}: !tt.ptr<{ELEM[d]}> loc(unknown)" for k, d in enumerate(pointers))
    lines = "\n".join(
        line if line.rstrip().endswith(("{", ":")) else f"{line} loc(unknown)"
        for line in body.splitlines()
        if line.strip()
    )
    return (
        f"module {{\n tt.func public @k({args}) attributes {{noinline = false}} {{\n{lines}\n"
        " tt.return loc(unknown)\n } loc(unknown)\n} loc(unknown)\n"
    )


def load_lines(name: str, pointer: str, elem: str, shape: Sequence[int]) -> str:
    """Lines that load a whole contiguous tensor of ``shape`` from ``pointer``."""
    total = 1
    for n in shape:
        total *= n
    dims = "x".join(map(str, shape))
    flat, kind = f"tensor<{total}x!tt.ptr<{elem}>>", f"tensor<{total}x{elem}>"
    return f"""
    %{name}_r = tt.make_range {{end = {total} : i32, start = 0 : i32}} : tensor<{total}xi32>
    %{name}_s = tt.splat {pointer} : !tt.ptr<{elem}> -> {flat}
    %{name}_p = tt.addptr %{name}_s, %{name}_r : {flat}, tensor<{total}xi32>
    %{name}_f = tt.load %{name}_p : {flat}
    %{name} = tt.reshape %{name}_f : {kind} -> tensor<{dims}x{elem}>"""


def store_lines(value: str, pointer: str, elem: str, shape: Sequence[int]) -> str:
    """Lines that store a whole tensor of ``shape`` to ``pointer``."""
    total = 1
    for n in shape:
        total *= n
    dims = "x".join(map(str, shape))
    flat, kind = f"tensor<{total}x!tt.ptr<{elem}>>", f"tensor<{total}x{elem}>"
    tag = pointer.strip("%")
    return f"""
    %{tag}_or = tt.make_range {{end = {total} : i32, start = 0 : i32}} : tensor<{total}xi32>
    %{tag}_os = tt.splat {pointer} : !tt.ptr<{elem}> -> {flat}
    %{tag}_op = tt.addptr %{tag}_os, %{tag}_or : {flat}, tensor<{total}xi32>
    %{tag}_ov = tt.reshape {value} : tensor<{dims}x{elem}> -> {kind}
    tt.store %{tag}_op, %{tag}_ov : {flat}"""


def apply(
    line: str,
    inputs: Sequence[Tensor],
    result: torch.dtype,
    shape: Sequence[int] | None = None,
    knobs: Knobs | None = None,
) -> Tensor:
    """Result of one operation. ``line`` has ``{0}``, ``{1}`` for operands, ``{T}`` for the dims
    of the first input, and makes ``%out`` of ``shape`` (default: that of the first input)."""
    first = list(inputs[0].shape)
    out_shape = list(first if shape is None else shape)
    stored = torch.uint8 if result == torch.bool else result
    out = torch.empty(out_shape, dtype=stored)
    body = "\n".join(
        load_lines(f"in{k}", f"%p{k}", ELEM[t.dtype], t.shape) for k, t in enumerate(inputs)
    )
    names = [f"%in{k}" for k in range(len(inputs))]
    body += "\n" + line.format(*names, T="x".join(map(str, first)))
    pointers = [t.dtype for t in inputs] + [result]
    body += store_lines("%out", f"%p{len(inputs)}", ELEM[result], out_shape)
    kept = [torch.empty_like(t) if t.numel() == 0 else t.contiguous() for t in inputs]
    execute(function(pointers, body), [*kept, out], knobs=knobs)
    return out.bool() if result == torch.bool else out
