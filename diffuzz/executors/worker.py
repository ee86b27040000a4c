"""The child process: one slice, one arch, one executor, many cases.

Everything that can go wrong in vLLM's code, in the compiler or in the executor ends here as an
outcome; only the death of the process is left for the parent to see.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from diffuzz import discovery
from diffuzz.arch import get_arch
from diffuzz.case import Case, make_case
from diffuzz.errors import CannotTell
from diffuzz.executors import Executor, create, wire
from diffuzz.executors.native_ops import NativeOps
from diffuzz.outcome import Location, Outcome, Raised, Report, Returned, Unsupported
from diffuzz.slicing import load as load_slice
from diffuzz.target import Inputs, Target

# What a worker keeps of the user's environment: a slice must not behave by what happens to be set.
_KEPT = (
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "CC",
    "CXX",
    "XDG_CACHE_HOME",
)
_KEPT_PREFIXES = ("CUDA_", "HIP_", "ROCR_", "ROCM_", "DIFFUZZ_", "TRITON_CACHE", "COV_", "COVERAGE")


@dataclass(frozen=True)
class Setup:
    """What a worker is started for: ``slice_dir`` is a written slice, ``native`` the
    :class:`~diffuzz.executors.native_ops.NativeOps` of it as data; ``log`` takes its output;
    workers of one ``lane`` share a device where there are several."""

    slice_dir: str
    target: str
    target_folders: tuple[str, ...]
    arch: str
    executor: str
    native: dict[str, Any]
    log: str
    memory_limit: int
    lane: int = 0


def main(connection: Connection, setup: Setup) -> None:
    """Serve cases until the parent closes the pipe."""
    _isolate(setup)
    try:
        runner = _Runner(setup)
        runner.executor.on_compile = lambda started: wire.send_compiling(connection)
    except CannotTell as error:
        wire.send(connection, Unsupported(error.reason))
        return
    except BaseException as error:
        traceback.print_exc()
        wire.send(connection, Unsupported(f"import failed: {type(error).__name__}: {error}"[:200]))
        return
    wire.send(connection, Returned({}))
    while True:
        try:
            request = connection.recv_bytes()
        except (EOFError, OSError):
            return
        path = Path(request.decode())
        wire.send(connection, runner.run(json.loads(path.read_text())))
        if runner.executor.lost:
            return


def _isolate(setup: Setup) -> None:
    log = os.open(setup.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in list(os.environ):
        if name not in _KEPT and not name.startswith(_KEPT_PREFIXES):
            del os.environ[name]
    os.environ["DIFFUZZ_LANE"] = str(setup.lane)
    if setup.memory_limit:
        with contextlib.suppress(ImportError, ValueError, OSError):
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (setup.memory_limit, setup.memory_limit))
    torch.set_num_threads(1)


class _Runner:
    """A loaded slice with its target and executor."""

    def __init__(self, setup: Setup) -> None:
        self.arch = get_arch(setup.arch)
        self.root = Path(setup.slice_dir).resolve()
        self.target: Target = discovery.load(setup.target, setup.target_folders)
        self.executor: Executor = create(setup.executor)
        self.executor.prepare(self.arch, NativeOps.from_dict(setup.native))
        self.code: Mapping[str, Any] = load_slice(self.root)

    def run(self, data: dict[str, Any]) -> Outcome:
        case = make_case(data["target"], self.target.axes, data["values"], data["seed"])
        try:
            return self._run(case)
        except CannotTell as error:
            return Unsupported(error.reason)
        except (MemoryError, torch.OutOfMemoryError):
            return Unsupported("out of memory")
        except Exception as error:
            failed = self.executor.translate(error)
            if failed is not None:
                return failed
            traceback.print_exc()
            return self._raised(error)

    def _run(self, case: Case) -> Outcome:
        inputs = {
            name: value.to(self.executor.device) if isinstance(value, torch.Tensor) else value
            for name, value in self.target.inputs(case, self.arch).items()
        }
        before = {k: v.clone() for k, v in inputs.items() if isinstance(v, torch.Tensor)}
        self.executor.begin()
        began = time.perf_counter()
        outputs = self.target.run(self.code, case, self.arch, inputs)
        observed = self.executor.reports()  # on a GPU this waits for the device
        seconds = time.perf_counter() - began
        if _compiles_for_real(case):
            for failed in self.executor.compile_failures():
                return failed
        cpu = {name: tensor.cpu() for name, tensor in outputs.items()}
        return Returned(cpu, reports=(*observed, *_mutated(before, inputs)), seconds=seconds)

    def _raised(self, error: BaseException) -> Outcome:
        """An exception out of vLLM's code is its outcome; one out of ours says nothing of it."""
        frames = traceback.extract_tb(error.__traceback__)
        inside = [i for i, f in enumerate(frames) if _is_under(f.filename, self.root / "vllm")]
        said = f"{type(error).__name__}: {error}"[:200]
        if not inside:
            return Unsupported(f"target failed: {said}")
        if any(_is_machinery(f.filename) for f in frames[inside[-1] + 1 :]):
            return Unsupported(f"executor failed: {said}")
        if isinstance(error, AttributeError) and "_OpNamespace" in str(error):
            # torch's word for a native op nobody registered in this process.
            return Unsupported(f"missing op {error.name}")
        frame = frames[inside[-1]]
        file = str(Path(frame.filename).relative_to(self.root))
        return Raised(
            type=type(error).__name__,
            message=str(error),
            location=Location(file, frame.lineno or 0, frame.name),
            source_line=(frame.line or "").strip(),
        )


_PACKAGE = Path(__file__).resolve().parent.parent


def _compiles_for_real(case: Case) -> bool:
    """One case in sixteen goes on to real binaries, chosen by its id: the same on both revisions,
    and every kind of launch gets its turn within some runs."""
    return case.id.startswith("0")


def _is_under(filename: str, folder: Path) -> bool:
    return Path(filename).is_relative_to(folder)


def _is_machinery(filename: str) -> bool:
    """Whether a frame is diffuzz's own. Op models are not: what they raise is the op's check."""
    models = _PACKAGE / "native" / "op_models"
    return _is_under(filename, _PACKAGE) and not _is_under(filename, models)


def _mutated(before: Mapping[str, torch.Tensor], after: Inputs) -> list[Report]:
    """Inputs whose bits changed, though the target declares no input as an output."""
    changed = []
    for name, tensor in before.items():
        now = after[name]
        if not torch.equal(_raw(tensor), _raw(now)):
            changed.append(Report("wrong-result", f"the input {name} was changed", name))
    return changed


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.bool:
        return tensor
    return tensor.contiguous().reshape(-1).view(torch.uint8)
