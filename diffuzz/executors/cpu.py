"""Everything a slice needs on a machine without a GPU: Triton IR executed on the CPU, and native
ops built from the revision's own sources for the host (or modelled, without a compiler)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffuzz.arch import Arch
from diffuzz.executors import native_ops
from diffuzz.executors.native_ops import NativeOps, Provided
from diffuzz.executors.triton_ir import TritonIRExecutor
from diffuzz.executors.ttir.errors import CompileError, KernelFault
from diffuzz.executors.ttir.errors import Unsupported as UnsupportedOp
from diffuzz.outcome import CompileFailed, Outcome, Raised, Report, TimedOut, Unsupported


class CpuExecutor:
    """Runs Triton kernels from their IR and native ops from their CUDA C++ source."""

    name = "cpu"
    device = "cpu"

    def __init__(self) -> None:
        self.lost = False
        self.on_compile: Callable[[bool], None] = lambda started: None
        self._triton = TritonIRExecutor()
        self._native: Provided | None = None

    def prepare(self, arch: Arch, native: NativeOps) -> None:
        self._triton.prepare(arch)
        # The ops stay registered as long as this reference lives.
        self._native = Provided(native, arch)

    def begin(self) -> None:
        self._triton.begin()
        self._native_reports()

    def reports(self) -> Sequence[Report]:
        return (*self._triton.reports(), *self._native_reports())

    def _native_reports(self) -> Sequence[Report]:
        return () if self._native is None else self._native.reports()

    def compile_failures(self) -> Sequence[CompileFailed]:
        return self._triton.compile_failures()

    def translate(self, error: Exception) -> Outcome | None:
        if isinstance(error, UnsupportedOp):
            return Unsupported(error.reason)
        if isinstance(error, CompileError):
            return CompileFailed(error.message, error.location)
        if isinstance(error, KernelFault):
            if error.kind == "hang":
                return TimedOut(0.0)
            return Raised("AssertionError", error.message, error.location)
        return native_ops.translate(error)
