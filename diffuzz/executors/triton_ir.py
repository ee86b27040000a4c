"""The executor that runs Triton kernels on the CPU by executing their Triton IR.

``prepare`` puts its launcher in the place of Triton's; kernels imported afterwards run on it.
Exceptions a launch may raise are in :mod:`diffuzz.executors.ttir.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from diffuzz.arch import Arch
from diffuzz.executors.ttir.knobs import Knobs
from diffuzz.executors.ttir.launch import Launcher, install
from diffuzz.outcome import CompileFailed, Report


class TritonIRExecutor:
    """Runs slices with Triton kernels on the CPU. ``launcher`` is None before ``prepare``."""

    name = "triton-ir"
    device = "cpu"

    def __init__(self, knobs: Knobs | None = None) -> None:
        self.knobs = knobs or Knobs()
        self.launcher: Launcher | None = None

    def prepare(self, arch: Arch, root: str | None = None) -> None:
        """Install the launcher for ``arch``. ``root`` is the folder slices are in: locations are
        given relative to it, else from the last ``vllm`` folder of a path on."""
        self.launcher = Launcher(arch, root, self.knobs)
        install(self.launcher)

    def begin(self) -> None:
        self._ready().clear()

    def reports(self) -> Sequence[Report]:
        return tuple(self._ready().reports)

    def mark_uninitialised(self, tensor: Tensor) -> None:
        """Reads of this tensor before a kernel writes it are reported, until the next case."""
        self._ready().mark_uninitialised(tensor)

    def compile_failures(self) -> Sequence[CompileFailed]:
        """What Triton's compiler says against kernels of this case when it goes on to a real
        binary for the arch (``hsaco`` or ``cubin``); empty if all compile."""
        return tuple(self._ready().compile_failures())

    def _ready(self) -> Launcher:
        if self.launcher is None:
            raise RuntimeError("prepare() has not been called")
        return self.launcher
