"""Everything a slice needs on a machine without a GPU: Triton IR executed on the CPU, and native
ops from whatever provides them."""

from __future__ import annotations

from collections.abc import Sequence

from diffuzz.arch import Arch
from diffuzz.errors import CannotTell
from diffuzz.executors.triton_ir import TritonIRExecutor
from diffuzz.executors.ttir.errors import CompileError, KernelFault
from diffuzz.executors.ttir.errors import Unsupported as UnsupportedOp
from diffuzz.native import op_models
from diffuzz.outcome import CompileFailed, Outcome, Raised, Report, TimedOut, Unsupported


class CpuExecutor:
    """Runs Triton kernels from their IR and native ops from models of their contract."""

    name = "cpu"
    device = "cpu"

    def __init__(self) -> None:
        self._triton = TritonIRExecutor()
        self._ops: object = None

    def prepare(self, arch: Arch, ops: Sequence[str]) -> None:
        self._triton.prepare(arch)
        if ops:
            names = [op.rpartition(".")[2] for op in ops]
            reason = op_models.unmodelled(names)
            if reason is not None:
                raise CannotTell(reason)
            # Registered as long as this reference lives.
            self._ops = op_models.register(arch, names=names)

    def begin(self) -> None:
        self._triton.begin()

    def reports(self) -> Sequence[Report]:
        return self._triton.reports()

    def translate(self, error: Exception) -> Outcome | None:
        if isinstance(error, UnsupportedOp):
            return Unsupported(error.reason)
        if isinstance(error, CompileError):
            return CompileFailed(error.message, error.location)
        if isinstance(error, KernelFault):
            if error.kind == "hang":
                return TimedOut(0.0)
            return Raised("AssertionError", error.message, error.location)
        return None
