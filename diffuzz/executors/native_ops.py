"""Native ops for a slice: planned where the revision is at hand, provided in the worker.

The plan is plain data. What provides an op is shown to the user: the revision's own source,
built, or, on a machine without a compiler, the model of its contract.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from diffuzz.arch import Arch
from diffuzz.errors import CannotTell
from diffuzz.native import build_cpu, build_gpu, op_models
from diffuzz.native.closure import Closure, find_closure
from diffuzz.native.reasons import NoCompiler, refusal
from diffuzz.native.sanitize import parse_runtime_reports
from diffuzz.outcome import Outcome, Report, Unsupported
from diffuzz.sources import Source

PREFIX = "torch.ops."


@dataclass(frozen=True)
class NativeOps:
    """What a worker needs to provide the native ops of one slice.

    ``identity`` is the hash of the ops' closure, part of the slice's identity. ``provider``:
    ``source`` (the library at ``library``), ``model``, or ``none`` where there is no op. ``note``
    is for the report, empty when there is nothing to say. ``seconds`` is what compiling took.
    """

    names: tuple[str, ...] = ()
    schemas: dict[str, str] = field(default_factory=dict)
    identity: str = ""
    provider: Literal["none", "source", "model"] = "none"
    library: str = ""
    note: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "names": list(self.names)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NativeOps:
        return cls(**{**data, "names": tuple(data["names"])})


def op_names(ops: Sequence[str]) -> tuple[str, ...]:
    """``NAME`` or ``NAMESPACE::NAME`` of what slices call ``torch.ops.NAMESPACE.NAME``."""
    names = []
    for op in ops:
        namespace, _, name = op.removeprefix(PREFIX).rpartition(".")
        names.append(name if namespace in ("", "_C") else f"{namespace}::{name}")
    return tuple(names)


def follow(source: Source, ops: Sequence[str], arch: Arch) -> Closure | None:
    """The closure of a slice's ops, None if it has none. Raises :class:`CannotTell`."""
    if not ops:
        return None
    return find_closure(source, op_names(ops), rocm=arch.vendor == "amd")


def plan(
    closure: Closure | None,
    arch: Arch,
    *,
    executor: Literal["cpu", "gpu"] = "cpu",
    sanitize: bool = False,
) -> NativeOps:
    """Build ``closure`` for ``arch`` (or the present GPU) and say how to provide its ops.

    Without a compiler the op models take their place, if they know these ops; a source that
    cannot be emulated is not replaced: :class:`CannotTell` has the reason.
    """
    if closure is None:
        return NativeOps()
    names = tuple(op.name for op in closure.ops)
    common = NativeOps(names, closure.schemas, closure.hash)
    try:
        built: build_cpu.BuiltLibrary | build_gpu.BuiltForGpu
        if executor == "gpu":
            built = build_gpu.build_gpu(closure, arch)
        else:
            built = build_cpu.build(closure, arch, sanitize=sanitize)
    except NoCompiler as error:
        reason = op_models.unmodelled(names, closure.schemas)
        if executor == "gpu" or sanitize or reason is not None:
            raise
        return dataclasses.replace(common, provider="model", note=f"op model: {error.reason}")
    return dataclasses.replace(
        common, provider="source", library=str(built.path), seconds=built.seconds
    )


class Provided:
    """Native ops that are live in this process."""

    def __init__(self, ops: NativeOps, arch: Arch) -> None:
        """Raises :class:`CannotTell` if the library or the models cannot be loaded."""
        self._library: build_cpu.LoadedLibrary | None = None
        self._models: op_models.Registered | None = None
        try:
            if ops.provider == "source":
                from pathlib import Path

                self._library = build_cpu.LoadedLibrary(Path(ops.library))
            elif ops.provider == "model":
                self._models = op_models.register(arch, ops.schemas, ops.names)
        except (OSError, ValueError, RuntimeError) as error:
            raise CannotTell(f"native ops: {str(error).splitlines()[0]}") from None

    def reports(self) -> list[Report]:
        """What the emulated GPU observed since the last call."""
        return parse_runtime_reports(self._library.take_reports()) if self._library else []

    def close(self) -> None:
        if self._models:
            self._models.close()


def translate(error: Exception) -> Outcome | None:
    """``Unsupported`` where an emulated op met what is not emulated, else None."""
    reason = refusal(str(error))
    return Unsupported(reason) if reason else None
