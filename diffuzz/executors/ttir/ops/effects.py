"""Operations whose only effect is on the outside: barriers, assertions, prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from diffuzz.executors.ttir.errors import KernelFault
from diffuzz.executors.ttir.frames import Frame
from diffuzz.executors.ttir.ir import Op
from diffuzz.executors.ttir.ops.registry import step

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run


@step("ttg.barrier", "gpu.barrier", "ttg.local_barrier", "tt.fence")
def barrier(run: Run, op: Op, frame: Frame) -> list[Tensor]:
    # Each operation already runs for all lanes of all programs before the next one starts.
    return []


def _stop_if_false(run: Run, op: Op, frame: Frame, message: str) -> list[Tensor]:
    condition = frame[op.operands[0]]
    if not bool(condition.all()):
        rows = condition.reshape(condition.shape[0], -1).all(1)
        first = int((~rows).nonzero()[0])
        program = run.program(int(frame.pids[first]))
        raise KernelFault("assertion", message, run.locate(op), program)
    return []


@step("tt.assert")
def assert_(run: Run, op: Op, frame: Frame) -> list[Tensor]:
    message = op.words[0] if op.words else ""
    return _stop_if_false(run, op, frame, f"device assertion failed: {message}")


@step("llvm.intr.assume")
def assume(run: Run, op: Op, frame: Frame) -> list[Tensor]:
    return _stop_if_false(run, op, frame, "tl.assume of a false condition")


@step("tt.print")
def print_(run: Run, op: Op, frame: Frame) -> list[Tensor]:
    shown = [f"{name}={frame[name].tolist()}" for name in op.operands]
    run.printed.append(" ".join([*op.words[:1], *shown]))
    return []
