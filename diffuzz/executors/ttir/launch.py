"""The stand-in for ``kernel[grid](...)``: specialise, lower (once), run on the CPU.

:func:`install` puts it in the place of Triton's launcher in this process, for one architecture.
vLLM's launchers then run unmodified on CPU tensors: callable grids, keyword and constexpr
arguments, ``heuristics`` and ``autotune`` decorators are Triton's own code up to the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from triton.runtime import driver as triton_driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from diffuzz.arch import Arch
from diffuzz.executors.ttir.compile import Compiler, Key, Specialised
from diffuzz.executors.ttir.driver import CpuDriver
from diffuzz.executors.ttir.errors import CompileError, Unsupported
from diffuzz.executors.ttir.interpret import Grid, Run
from diffuzz.executors.ttir.knobs import Knobs
from diffuzz.executors.ttir.memory import Memory
from diffuzz.executors.ttir.plan import Plan, plan
from diffuzz.executors.ttir.reader import check_against, read
from diffuzz.executors.ttir.values import HOLD, wrapped
from diffuzz.outcome import CompileFailed, Report


@dataclass(frozen=True)
class Kernel:
    """A kernel ready to launch: its plan and the parameters that are arguments at run time."""

    name: str
    plan: Plan
    runtime_names: Sequence[str]


@dataclass
class Launcher:
    """Launches JIT functions for one architecture and keeps what the sanitizer reported.

    ``poison`` marks bytes as not yet written, by address of the storage (see
    :meth:`mark_uninitialised`). ``compiled`` keeps each launch that was lowered, for the compile
    oracle.
    """

    arch: Arch
    root: str | None = None
    knobs: Knobs = field(default_factory=Knobs)
    reports: list[Report] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    compiled: dict[Key, Specialised] = field(default_factory=dict)
    launches: int = 0
    _poison: dict[int, Tensor] = field(default_factory=dict)
    _binaries: dict[Key, str | None] = field(default_factory=dict)
    _used: dict[Key, None] = field(default_factory=dict)
    _kept: list[Tensor] = field(default_factory=list)
    _reachable: list[Tensor] = field(default_factory=list)
    _kernels: dict[Key, Kernel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.compiler = Compiler(self.arch, self.root)

    def clear(self) -> None:
        """Forget reports, prints and poison; compiled kernels stay."""
        self.reports.clear()
        self.printed.clear()
        self._poison.clear()
        self._kept.clear()
        self._reachable.clear()
        self._used.clear()
        self.launches = 0

    def mark_uninitialised(self, tensor: Tensor) -> None:
        """Reading this tensor's elements before a kernel writes them will be reported."""
        storage = tensor.untyped_storage()
        marks = self._poison.get(storage.data_ptr())
        if marks is None:
            marks = torch.zeros(storage.nbytes(), dtype=torch.bool)
            self._poison[storage.data_ptr()] = marks
            self._kept.append(tensor)
        size = tensor.element_size()
        strides = [s * size for s in tensor.stride()]
        view = marks.as_strided(
            [*tensor.shape, size], [*strides, 1], tensor.storage_offset() * size
        )
        view.fill_(True)

    def also_reachable(self, *tensors: Tensor) -> None:
        """Tensors that kernels reach only through addresses stored in memory."""
        self._reachable += tensors

    def kernel(
        self, function: JITFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Kernel, Mapping[str, Any]]:
        """The kernel a launch means, lowered on first use, and its bound arguments."""
        key, bound, _, _ = self.compiler.bind(function, args, kwargs)
        self._used[key] = None
        kernel = self._kernels.get(key)
        if kernel is None:
            launch = self.compiler.specialise(function, args, kwargs)
            self.compiled[key] = launch
            lowered = self.compiler.lower(launch)
            module = read(lowered.text)
            check_against(module, lowered.walked)
            kernel = Kernel(function.__name__, plan(module), launch.runtime_names)
            self._kernels[key] = kernel
        return kernel, bound

    def launch(
        self,
        function: JITFunction,
        grid: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        warmup: bool = False,
    ) -> Kernel:
        """Run a launch to its end. Raises what :mod:`.errors` says; sanitizer reports are kept."""
        kernel, bound = self.kernel(function, args, kwargs)
        if not warmup:
            shape = grid(dict(bound)) if callable(grid) else grid
            with torch.no_grad(), _threads(self.knobs.threads):
                self._execute(kernel, bound, _grid(shape))
        return kernel

    def _execute(self, kernel: Kernel, bound: Mapping[str, Any], grid: Grid) -> None:
        self.launches += 1
        memory = Memory(self._poison, self.knobs.races, self.knobs.views)
        values = _arguments(kernel, bound, memory)
        for at, tensor in enumerate(self._reachable):
            memory.add(f"reachable {at}", tensor, True)
        run = Run(kernel.plan, memory, grid, self.knobs, self.root)
        programs = grid[0] * grid[1] * grid[2]
        widest = max(kernel.plan.widest, 1)
        group = max(1, min(self.knobs.max_programs, self.knobs.chunk_bytes // widest))
        try:
            for start in range(0, programs, group):
                pids = torch.arange(start, min(programs, start + group), dtype=torch.int32)
                run.call(kernel.plan.module.kernel, values, pids)
        finally:
            self.reports += run.reports
            self.printed += run.printed

    def binary(self, key: Key) -> str | None:
        """Compile a launch seen before to machine code: None, or the compiler's message. Each
        specialisation is compiled once."""
        if key not in self._binaries:
            self._binaries[key] = self.compiler.binary(self.compiled[key])
        return self._binaries[key]

    def compile_failures(self) -> list[CompileFailed]:
        """Kernels launched since :meth:`clear` that do not compile to machine code."""
        failed = []
        for key in self._used:
            message = self.binary(key)
            if message is not None:
                where = self.compiler.definition(self.compiled[key].function)
                failed.append(CompileFailed(message, where))
        return failed


@contextmanager
def _threads(count: int) -> Iterator[None]:
    previous = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


def _grid(shape: Any) -> Grid:
    if isinstance(shape, int):
        shape = (shape,)
    x, y, z = ([int(n) for n in shape] + [1, 1, 1])[:3]
    return x, y, z


def _arguments(kernel: Kernel, bound: Mapping[str, Any], memory: Memory) -> list[Tensor]:
    entry = kernel.plan.module.kernel
    if len(entry.operands) != len(kernel.runtime_names):
        raise Unsupported("unsupported argument type")
    values = []
    for name, symbol, kind in zip(kernel.runtime_names, entry.operands, entry.types, strict=True):
        value = bound[name]
        if kind.is_pointer:
            tensor = value if isinstance(value, Tensor) else getattr(value, "base", None)
            if not isinstance(tensor, Tensor):
                raise Unsupported(f"unsupported argument type {type(value).__name__}")
            address = memory.add(name, tensor, symbol in kernel.plan.written)
            values.append(torch.tensor([address], dtype=torch.int64))
        elif kind.elem in HOLD and not kind.shape:
            dtype = HOLD[kind.elem]
            if not dtype.is_floating_point and dtype != torch.bool:
                value = wrapped(int(value), 8 * dtype.itemsize)
            values.append(torch.tensor([value], dtype=dtype))
        else:
            raise Unsupported(f"unsupported argument type {kind}")
    return values


def _run_jit(launcher: Launcher) -> Callable[..., Any]:
    def run(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        return launcher.launch(self, grid, args, kwargs, warmup)

    return run


def _run_autotuned(launcher: Launcher) -> Callable[..., Any]:
    def run(self: Autotuner, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        pruned = self.perf_model or self.early_config_prune
        configs = self.prune_configs(kwargs) if pruned else self.configs
        config = configs[launcher.knobs.autotune_config % len(configs)]
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        result = self.fn.run(*args, **kwargs, **config.all_kwargs())
        self.nargs = None
        return result

    return run


def install(launcher: Launcher) -> None:
    """Make every JIT function of this process run on ``launcher``."""
    if _interpreting():
        raise CompileError("TRITON_INTERPRET is set; unset it to run on the Triton IR executor")
    triton_driver.set_active(CpuDriver(launcher.arch))
    JITFunction.run = _run_jit(launcher)
    Autotuner.run = _run_autotuned(launcher)


def _interpreting() -> bool:
    from triton import knobs

    return bool(knobs.runtime.interpret)
