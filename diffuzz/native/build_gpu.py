"""A revision's native ops for the GPU that is here, built alone.

The same closure as on the CPU, unmodified, with bindings generated from its op schemas: seconds,
where vLLM's whole build takes 10 to 180 minutes. ``torch.utils.cpp_extension`` finds nvcc or
hipcc, and on ROCm translates the sources as vLLM's own build does. It also loads what it built,
so it runs in a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffuzz.arch import Arch
from diffuzz.cache import atomic_write, cache_dir, locked
from diffuzz.native.closure import INCLUDE_DIRS, Closure
from diffuzz.native.reasons import NoCompiler, NotEmulatable
from diffuzz.native.toolchain import SHIM, child_environment, torch_target_version

TIME_LIMIT = 540
_NAME = "diffuzz_ops"
# What vLLM's own build defines, or takes back of what torch defines for extensions.
_FLAGS = ["-O3", "-DNDEBUG", "-DENABLE_FP8"]
_CUDA_FLAGS = [
    *("-DUSE_CUDA", "--expt-relaxed-constexpr", "-U__CUDA_NO_HALF_OPERATORS__"),
    *("-U__CUDA_NO_HALF_CONVERSIONS__", "-U__CUDA_NO_HALF2_OPERATORS__"),
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
]
_HIP_FLAGS = ["-DUSE_ROCM", "-U__HIP_NO_HALF_OPERATORS__", "-U__HIP_NO_HALF_CONVERSIONS__"]


@dataclass(frozen=True)
class BuiltForGpu:
    """Loaded as a CPU build is. ``device`` is the architecture it was built for; ``seconds`` is
    what compiling took, 0 if nothing had to be compiled."""

    path: Path
    ops: tuple[str, ...]
    device: str
    key: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Device:
    """The present GPU: ``sm_90`` or ``gfx942``, and what compiles for it."""

    name: str
    rocm: bool
    toolkit: str


def present_device() -> Device:
    """The GPU that torch sees. Raises :class:`NoCompiler` if there is none, or no toolkit."""
    import torch

    if not torch.cuda.is_available():
        raise NoCompiler("no GPU on this machine")
    if torch.version.hip:
        name = torch.cuda.get_device_properties(0).gcnArchName.partition(":")[0]
        return Device(name, True, f"hip {torch.version.hip}")
    from torch.utils import cpp_extension

    if cpp_extension.CUDA_HOME is None or shutil.which("nvcc", path=_nvcc_path()) is None:
        raise NoCompiler("no CUDA toolkit (nvcc) on this machine; set CUDA_HOME")
    major, minor = torch.cuda.get_device_capability(0)
    return Device(f"sm_{major}{minor}", False, f"cuda {torch.version.cuda}")


def _nvcc_path() -> str:
    from torch.utils import cpp_extension

    return os.pathsep.join([f"{cpp_extension.CUDA_HOME}/bin", os.environ.get("PATH", "")])


def build_gpu(closure: Closure, arch: Arch) -> BuiltForGpu:
    """The library of ``closure`` for the present GPU, compiled only if the cache lacks it.

    Raises :class:`NoCompiler` (also where that GPU is not an ``arch``) or
    :class:`NotEmulatable` (the closure does not compile alone).
    """
    import torch

    device = present_device()
    present = device.name.replace("_", "")
    if present != arch.name or closure.rocm != device.rocm:
        raise NoCompiler(f"device is {present}, not {arch.name}")
    version = [torch.__version__, device.name, device.toolkit, *_flags(device)]
    key = hashlib.sha256(json.dumps([closure.hash, version]).encode()).hexdigest()[:32]
    folder = cache_dir("native") / f"gpu-{key}"
    seconds = 0.0
    with locked(folder.with_suffix(".lock")):
        if not (folder / "meta.json").is_file():
            seconds = _build_into(folder, closure, device)
    meta = json.loads((folder / "meta.json").read_text())
    if meta.get("refused"):
        raise NotEmulatable(meta["refused"], meta["detail"])
    ops = tuple(op.name for op in closure.ops)
    return BuiltForGpu(folder / "ops.so", ops, device.name, key, seconds)


def _flags(device: Device) -> list[str]:
    own = _HIP_FLAGS if device.rocm else [*_CUDA_FLAGS, f"-gencode={_gencode(device.name)}"]
    return [*_FLAGS, f"-DTORCH_TARGET_VERSION={torch_target_version()}", *own]


def _gencode(name: str) -> str:
    number = name.removeprefix("sm_")
    return f"arch=compute_{number},code=sm_{number}"


def _build_into(folder: Path, closure: Closure, device: Device) -> float:
    shutil.rmtree(folder, ignore_errors=True)  # what a killed build left has no meta.json
    started = time.monotonic()
    meta: dict[str, Any] = {"device": device.name, "ops": [op.name for op in closure.ops]}
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        request = write_request(Path(scratch), closure, device)
        refused, detail = _run(request, device)
        folder.mkdir()
        if refused:
            meta |= {"refused": refused, "detail": detail}
        else:
            Path(scratch, "build", f"{_NAME}.so").replace(folder / "ops.so")
        meta["seconds"] = round(time.monotonic() - started, 3)
        atomic_write(folder / "meta.json", json.dumps(meta, indent=1).encode())
    return float(meta["seconds"])


def write_request(scratch: Path, closure: Closure, device: Device) -> Path:
    """Lay out the sources under ``scratch`` and say in a file what is to be built of them."""
    tree = scratch / "src"
    for path, text in closure.files.items():
        copy = tree / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    units = []
    for number, source in enumerate(closure.sources):
        unit = tree / f"diffuzz_unit{number}.cu"
        unit.write_text(unit_text(closure, source))
        units.append(str(unit))
    (scratch / "build").mkdir()
    includes = [str(tree / f) if f else str(tree) for f in ("", *INCLUDE_DIRS)]
    if not device.rocm and not _has_cublas():
        compatible = scratch / "compat"
        compatible.mkdir()
        shutil.copy(SHIM / "cublas_v2.h", compatible)
        includes.append(str(compatible))
    request = scratch / "request.json"
    content = {
        "sources": units,
        "flags": _flags(device),
        "includes": includes,
        "folder": str(scratch / "build"),
        "rocm": device.rocm,
    }
    request.write_text(json.dumps(content))
    return request


def _has_cublas() -> bool:
    """Toolkits made of wheels come without cuBLAS, whose handle's name some headers want."""
    from torch.utils import cpp_extension

    return Path(cpp_extension.CUDA_HOME or "", "include", "cublas_v2.h").is_file()


def unit_text(closure: Closure, source: str) -> str:
    """The translation unit of one source file, with the bindings of its ops on the GPU's key."""
    ops = [op for op in closure.ops if op.source == source]
    stable = all(op.stable for op in ops)
    header = "torch/csrc/stable/library.h" if stable else "torch/library.h"
    lines = [f"#include <{header}>", f'#include "{source}"']
    for op in ops:
        prefix = "STABLE_" if op.stable else ""
        function = f"TORCH_BOX(&{op.function})" if op.stable else f"&{op.function}"
        schema = json.dumps(" ".join(op.schema.split()))
        lines += [
            f"{prefix}TORCH_LIBRARY_FRAGMENT({op.namespace}, ops) {{ ops.def({schema}); }}",
            f"{prefix}TORCH_LIBRARY_IMPL({op.namespace}, CUDA, ops) "
            f'{{ ops.impl("{op.name}", {function}); }}',
        ]
    return "\n".join(lines) + "\n"


def _run(request: Path, device: Device) -> tuple[str, str]:
    """Build in a child process; (reason, compiler output), the reason empty if it is built."""
    environment = {**child_environment(), "PYTORCH_ROCM_ARCH": device.name, "MAX_JOBS": "2"}
    command = [sys.executable, "-m", "diffuzz.native.build_gpu", str(request)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise NoCompiler(f"building for the GPU takes more than {TIME_LIMIT} s") from None
    if done.returncode == 0:
        return "", ""
    output = done.stdout + done.stderr
    if "Ninja is required" in output:
        raise NoCompiler("ninja is not installed; building for the GPU needs it")
    error = re.search(r"^\S*?([\w.]+)(?:\((\d+)\)|:(\d+)).*?error:? (.*)$", output, re.M)
    if error is None:
        return "the GPU's compiler failed", output[-4000:]
    line = error.group(2) or error.group(3)
    return f"{error.group(1)}:{line}: {error.group(4)[:90]}", output[-4000:]


def _child(request: Path) -> None:
    from torch.utils import cpp_extension

    content = json.loads(request.read_text())
    host = [f for f in content["flags"] if f.startswith(("-D", "-O"))]
    cpp_extension.load(
        name=_NAME,
        sources=content["sources"],
        extra_cflags=host,
        extra_cuda_cflags=content["flags"],
        extra_include_paths=content["includes"],
        build_directory=content["folder"],
        with_cuda=True,
        is_python_module=False,
    )


if __name__ == "__main__":
    _child(Path(sys.argv[1]))
