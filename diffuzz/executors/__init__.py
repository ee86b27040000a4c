"""How a slice is run. One protocol, adapters beside it, each in its own file.

An executor is chosen inside the worker process, before the slice is imported: it may have to put
its own launcher in the place of Triton's, or to register native operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from diffuzz.arch import Arch
from diffuzz.errors import UsageError
from diffuzz.outcome import CompileFailed, Outcome, Report

if TYPE_CHECKING:
    from diffuzz.executors.native_ops import NativeOps


class Executor(Protocol):
    """Prepares a worker process to run slices for one arch.

    ``device`` is the torch device inputs must be on. ``prepare`` is called once, before the slice
    is imported, with what provides the slice's native ops; it raises
    :class:`~diffuzz.errors.CannotTell` where that fails. ``begin`` is called before each case;
    ``reports`` after it, and returns what was observed since. ``compile_failures`` takes the
    kernels of the case on to real binaries and returns what the compiler says. ``translate``
    turns an exception of the executor's own (a compiler's refusal, an operation it does not know)
    into an outcome, and returns None for any other. ``lost`` says that the process can run no
    further case; ``on_compile`` is called when a compiler starts and ends that may take longer
    than a case.
    """

    lost: bool
    on_compile: Callable[[bool], None]

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str: ...

    def prepare(self, arch: Arch, native: NativeOps) -> None: ...

    def begin(self) -> None: ...

    def reports(self) -> Sequence[Report]: ...

    def compile_failures(self) -> Sequence[CompileFailed]: ...

    def translate(self, error: Exception) -> Outcome | None: ...


NAMES = ("cpu", "gpu")


def create(name: str) -> Executor:
    """The executor called ``name``. Imported on demand: each needs what another may not have."""
    if name == "cpu":
        from diffuzz.executors.cpu import CpuExecutor

        return CpuExecutor()
    if name == "gpu":
        from diffuzz.executors.gpu import GpuExecutor

        return GpuExecutor()
    raise UsageError(f"unknown executor {name!r}; known: {', '.join(NAMES)}")
