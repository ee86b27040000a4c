"""Slices as they are, on the GPU that is here (CUDA or ROCm, both by torch's names).

A device fault is reported by whatever call comes next, so every case ends with a synchronisation:
its faults are its own. After one, the process's context on the device is lost. ``lost`` says so,
and the process must be replaced before another case runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from diffuzz.arch import ARCHS, Arch
from diffuzz.errors import CannotTell
from diffuzz.executors import native_ops
from diffuzz.executors.native_ops import NativeOps, Provided
from diffuzz.executors.ttir.locations import shown_path
from diffuzz.outcome import (
    CompileFailed,
    Crashed,
    Location,
    Outcome,
    Raised,
    Report,
    Unsupported,
)
from diffuzz.target import Target

LOST_STATUS = 70
LANE = "DIFFUZZ_LANE"
# What CUDA and HIP say once a kernel has gone wrong; the key is the outcome's short name.
_FAULTS = {
    "illegal memory access": ("illegal memory access", "illegaladdress", "code: 700"),
    "misaligned address": ("misaligned address", "code: 716"),
    "illegal instruction": ("illegal instruction", "invalid program counter", "code: 715"),
    "launch failure": ("unspecified launch failure", "launchfailure", "code: 719", "stack error"),
}
_ASSERTED = ("device-side assert", "hiperrorassert", "code: 710")
_NO_MEMORY = ("out of memory", "outofmemory", "memoryallocation")
# The machine's trouble, not the kernel's.
_DEVICE_LOST = (
    *("busy or unavailable", "uncorrectable", "ecc error", "no cuda-capable device"),
    *("no hip gpus", "device not ready", "driver shutting down", "device lost", "fallen off"),
    *("unable to determine the device", "system not yet initialized", "launch timed out"),
)
_FROM_DEVICE = re.compile(r"\b(cuda|hip)\b", re.I)
_ASSERTION = re.compile(
    r"^(?P<file>[^\n]+?):(?P<line>\d+): (?P<function>[^\n]*?): block: \[[^\]]*\],? thread: "
    r"\[[^\]]*\] Assertion `(?P<message>[^\n]*?)` failed",
    re.M,
)
_SHOWN = 200


def present_arch(index: int = 0) -> str | None:
    """What a visible GPU is called here (``sm90``, ``gfx942``), None where torch sees none. The
    name need not be one that diffuzz knows."""
    if not torch.cuda.is_available():
        return None
    if torch.version.hip:
        name: str = torch.cuda.get_device_properties(index).gcnArchName
        return name.partition(":")[0]
    major, minor = torch.cuda.get_device_capability(index)
    return f"sm{major}{minor}"


def device_of(lane: int, arch: Arch) -> int:
    """The device a lane of workers uses: lanes take turns on those that are an ``arch``."""
    fitting = [i for i in range(torch.cuda.device_count()) if present_arch(i) == arch.name]
    if not fitting:
        require(arch)
    return fitting[lane % len(fitting)]


def require(arch: Arch) -> None:
    """Raises :class:`CannotTell` where the first GPU that is here is not an ``arch``."""
    present = present_arch()
    if present is None:
        raise CannotTell("torch sees no GPU")
    if present != arch.name:
        raise CannotTell(f"device is {present}, not {arch.name}")


def default_archs(target: Target, executor: str) -> Sequence[str]:
    """The archs a run takes when the user names none: the target's own, and of those only the
    device's where a GPU runs them and the target has it."""
    present = present_arch() if executor == "gpu" else None
    return (present,) if present in ARCHS and present in target.archs else target.archs


class GpuExecutor:
    """Launches Triton kernels with Triton and native ops from the revision's own build.

    ``on_compile`` is called with True when Triton starts to compile a kernel and False when it
    has: what a first launch takes is not the case's time.
    """

    name = "gpu"
    device = "cuda"

    def __init__(self) -> None:
        self.lost = False
        self.on_compile: Callable[[bool], None] = lambda started: None
        self._native: Provided | None = None
        self._kernel: Any = None
        self._printed = 0

    def prepare(self, arch: Arch, native: NativeOps) -> None:
        require(arch)
        self._watch_compiler()
        try:
            torch.cuda.set_device(device_of(int(os.environ.get(LANE, "0")), arch))
            torch.zeros(1, device=self.device)
        except RuntimeError as error:
            raise CannotTell(f"the device cannot be used: {_first_line(error)}") from None
        # The ops stay registered as long as this reference lives.
        self._native = Provided(native, arch)

    def _watch_compiler(self) -> None:
        from triton import knobs

        def before(**about: Any) -> bool:
            self._kernel = getattr(about.get("fn"), "jit_function", None)
            self.on_compile(True)
            return False  # True would keep Triton from compiling

        def after(**about: Any) -> bool:
            self.on_compile(False)
            return False

        knobs.runtime.jit_cache_hook = before
        knobs.runtime.jit_post_compile_hook = after

    def begin(self) -> None:
        self._end_if_lost()
        self._printed = _log_size()
        torch.cuda.synchronize()

    def reports(self) -> Sequence[Report]:
        torch.cuda.synchronize()
        return () if self._native is None else self._native.reports()

    def compile_failures(self) -> Sequence[CompileFailed]:
        """None: what ran here had been compiled, and a refusal is an outcome of its own."""
        return ()

    def translate(self, error: Exception) -> Outcome | None:
        self._end_if_lost()
        refused = self._refused(error)
        if refused is not None:
            return refused
        if not isinstance(error, RuntimeError):
            return None
        outcome = self._fault(str(error))
        self.lost = outcome is not None and outcome != Unsupported("out of memory")
        return outcome or native_ops.translate(error)

    def _end_if_lost(self) -> None:
        if self.lost:
            # Nothing runs on a lost context, and errors of it must not be taken for the next
            # case's: the parent runs that one again in a process of its own.
            os._exit(LOST_STATUS)

    def _fault(self, text: str) -> Outcome | None:
        # What follows the first line is advice, and it speaks of assertions whatever went wrong.
        first = (text.strip().splitlines() or [""])[0][:_SHOWN]
        said = first.lower()
        if not _FROM_DEVICE.search(said):
            return None
        if any(word in said for word in _ASSERTED):
            return self._asserted()
        for name, words in _FAULTS.items():
            if any(word in said for word in words):
                return Crashed(f"{name} on the device", first)
        if any(word in said for word in _NO_MEMORY):
            return Unsupported("out of memory")
        if any(word in said for word in _DEVICE_LOST):
            return Unsupported("device lost")
        return None

    def _asserted(self) -> Raised:
        """A device-side assertion, with the place the device printed, if it did."""
        found = _ASSERTION.search(_log_since(self._printed))
        if found is None:
            return Raised("AssertionError", "device-side assertion", None)
        function = "" if found["function"] in ("unknown", "<unknown>") else found["function"]
        location = Location(shown_path(found["file"]), int(found["line"]), function)
        return Raised("AssertionError", found["message"], location)

    def _refused(self, error: Exception) -> CompileFailed | None:
        """The compiler's refusal of a kernel, in its innermost words."""
        from triton.compiler.errors import CompilationError
        from triton.runtime.errors import OutOfResources, PTXASError

        failed_pass = isinstance(error, RuntimeError) and "PassManager::run failed" in str(error)
        if not (isinstance(error, (CompilationError, OutOfResources, PTXASError)) or failed_pass):
            return None
        innermost: BaseException = error
        while innermost.__cause__ is not None:
            innermost = innermost.__cause__
        text = getattr(innermost, "error_message", None) or str(innermost)
        return CompileFailed(text.strip()[-_SHOWN:], self._kernel_location())

    def _kernel_location(self) -> Location | None:
        code = getattr(getattr(self._kernel, "fn", None), "__code__", None)
        if code is None:
            return None
        return Location(shown_path(code.co_filename), code.co_firstlineno, code.co_name)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_SHOWN]


def _log_size() -> int:
    """How much this process has written to its log so far (the worker's standard error)."""
    try:
        return os.fstat(2).st_size
    except OSError:
        return 0


def _log_since(start: int) -> str:
    """What the device printed since then: the driver writes assertions to standard error."""
    try:
        with open("/proc/self/fd/2", "rb") as log:
            log.seek(start)
            return log.read(1 << 16).decode(errors="replace")
    except (OSError, ValueError):
        return ""
