"""The host compiler and the headers it needs, wherever this machine has them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from diffuzz.native.reasons import NoCompiler

SHIM = Path(__file__).parent / "shim"
_HEADER_PLACES = (  # package, folder in it: wheels that carry CUDA's headers, no toolkit needed
    ("triton", "backends/nvidia/include"),
    ("nvidia.cu13", "include"),
    ("nvidia.cuda_runtime", "include"),
)
_NEEDED_HEADERS = ("cuda_runtime.h", "cuda_fp8.h", "cuda_bf16.h")


@dataclass(frozen=True)
class Compiler:
    """``version`` is the first line of ``--version``: part of every build's key."""

    path: str
    version: str

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version


@lru_cache(maxsize=8)
def _probe(path: str) -> Compiler | None:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Compiler(path, done.stdout.partition("\n")[0]) if done.returncode == 0 else None


def find_compiler() -> Compiler:
    """``$CXX``, else g++, clang++ or c++ on the path. Raises :class:`NoCompiler`."""
    if platform.machine() not in ("x86_64", "aarch64", "arm64"):
        raise NoCompiler(f"CUDA code is not emulated on {platform.machine()} processors")
    chosen = os.environ.get("CXX")
    for name in [chosen] if chosen else ["g++", "clang++", "c++"]:
        path = shutil.which(name)
        compiler = _probe(path) if path else None
        if compiler:
            return compiler
    asked = f"CXX={chosen} does not run" if chosen else "no g++ or clang++ on this machine"
    raise NoCompiler(f"{asked}; install one to run vLLM's CUDA code on the CPU")


@lru_cache(maxsize=1)
def cuda_headers() -> Path:
    """A folder with CUDA's headers from an installed wheel. Raises :class:`NoCompiler`."""
    for package, folder in _HEADER_PLACES:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for root in (spec.submodule_search_locations or []) if spec else []:
            path = Path(root, folder)
            if all((path / name).is_file() for name in _NEEDED_HEADERS):
                return path
    raise NoCompiler("no CUDA headers: install triton or nvidia-cuda-runtime")


@lru_cache(maxsize=1)
def torch_root() -> Path:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise NoCompiler("torch is not installed")
    return Path(spec.origin).parent


@lru_cache(maxsize=1)
def environment_id() -> str:
    """Digest of everything besides the closure and the flags that a build depends on."""
    import torch

    digest = hashlib.sha256()
    for part in (torch.__version__, platform.machine(), str(_cuda_version())):
        digest.update(part.encode() + b"\0")
    for path in sorted(p for p in SHIM.rglob("*") if p.is_file()):
        digest.update(path.relative_to(SHIM).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _cuda_version() -> str:
    for line in (cuda_headers() / "cuda.h").read_text(errors="replace").splitlines():
        if line.startswith("#define CUDA_VERSION"):
            return line.split()[-1]
    return "unknown"


def torch_target_version() -> str:
    """``TORCH_TARGET_VERSION`` of the installed torch: its stable ABI's whole extent."""
    import torch

    major, minor = torch.__version__.split(".")[:2]
    return f"0x{int(major):02x}{int(minor):02x}000000000000ULL"


def child_environment() -> dict[str, str]:
    """The environment for ``python -m diffuzz...``, wherever diffuzz was imported from."""
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
