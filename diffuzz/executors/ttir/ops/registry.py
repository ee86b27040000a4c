"""Which function runs an operation. Functions take the run, the operation and the frame, and
return the result (or a list, unless there is exactly one)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from diffuzz.executors.ttir.frames import Frame
from diffuzz.executors.ttir.ir import Op

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run

Step = Callable[["Run", Op, Frame], Any]
STEPS: dict[str, Step] = {}


def step(*names: str) -> Callable[[Step], Step]:
    """Register the function that runs the operations called ``names``."""

    def register(function: Step) -> Step:
        for name in names:
            STEPS[name] = function
        return function

    return register


def unary(name: str, function: Callable[[Tensor], Tensor]) -> None:
    def run_it(run: Run, op: Op, frame: Frame) -> Tensor:
        return function(frame[op.operands[0]])

    STEPS[name] = run_it


def binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    def run_it(run: Run, op: Op, frame: Frame) -> Tensor:
        return function(frame[op.operands[0]], frame[op.operands[1]])

    STEPS[name] = run_it
