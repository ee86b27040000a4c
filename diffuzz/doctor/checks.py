"""The checks of ``diffuzz doctor``: each says what is, and what to do if that is not enough.

``red`` means that diffuzz cannot do its work here, ``warn`` that some part of it is not to be had.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from diffuzz.arch import ARCHS
from diffuzz.errors import CannotTell, DiffuzzError

State = Literal["ok", "warn", "red"]
_SELFTEST_LIMIT = 180
# Building and running take memory maps and a few hundred megabytes of files.
_FREE = 2 << 30
_NEEDED = {"torch": ("2.11", None), "triton": ("3.6", "3.10"), "hypothesis": ("6.100", None)}


@dataclass(frozen=True)
class Check:
    """One line of the doctor's. ``todo`` is empty where there is nothing to do."""

    name: str
    state: State
    said: str
    todo: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def examine(repo: str | None = None) -> list[Check]:
    """All checks, in the order they are shown. ``repo`` is a folder or URL to reach."""
    single: list[Callable[[], Check]] = [
        _python,
        *(lambda name=name: _package(name) for name in _NEEDED),
        _cache,
        _device,
        lambda: _selftest("Triton on the CPU", "cpu", "red", "report this with the line above"),
        _compiler,
        lambda: _selftest("CUDA code on the CPU", "native", "warn", _NO_NATIVE),
        *_gpu_checks(),
        _index,
        lambda: _repository(repo),
    ]
    return [check() for check in single]


_NO_NATIVE = "install g++ or clang++; until then models of the ops stand in where there are some"


def _python() -> Check:
    said = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if platform.system() != "Linux":
        return Check("Python", "red", said, "Triton needs Linux")
    return Check("Python", "ok", said)


def _package(name: str) -> Check:
    least, below = _NEEDED[name]
    wanted = f"{name}>={least}" + (f",<{below}" if below else "")
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, "red", "not installed", f"pip install '{wanted}'")
    release = Version(found)
    if release < Version(least):
        return Check(name, "red", found, f"too old: pip install '{wanted}'")
    if below and release >= Version(below):
        return Check(name, "warn", found, f"not tried with this version: pip install '{wanted}'")
    return Check(name, "ok", found)


def _cache() -> Check:
    from diffuzz.cache import atomic_write, cache_dir

    try:
        folder = cache_dir()
        atomic_write(folder / "doctor", b"")
        (folder / "doctor").unlink(missing_ok=True)
    except DiffuzzError as error:
        return Check("cache", "red", str(error), "set DIFFUZZ_CACHE to a folder you can write")
    free = shutil.disk_usage(folder).free
    said = f"{folder}, {free / 1e9:.0f} GB free"
    if free < _FREE:
        return Check("cache", "warn", said, "make room, or set DIFFUZZ_CACHE")
    return Check("cache", "ok", said)


def _device() -> Check:
    """The GPU, its arch and the fp8 flavour its kernels mean."""
    import torch

    from diffuzz.executors.gpu import present_arch

    present = present_arch()
    if present is None:
        todo = "nothing, if there is no GPU: everything but --executor gpu works"
        return Check("GPU", "warn", f"none ({_gpu_torch()})", todo)
    name, count = torch.cuda.get_device_name(), torch.cuda.device_count()
    memory = torch.cuda.get_device_properties(0).total_memory / 1e9
    stack = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    said = f"{name} ({present}), {count} of it, {memory:.0f} GB, {stack}"
    arch = ARCHS.get(present)
    if arch is None:
        return Check("GPU", "warn", said, f"not one of {', '.join(ARCHS)}; use --executor cpu")
    return Check("GPU", "ok", f"{said}, fp8 is {arch.e4m3}")


def _gpu_torch() -> str:
    """Why torch sees no GPU, as far as its build says."""
    import torch

    if torch.version.hip:
        return f"torch is built for ROCm {torch.version.hip}"
    if torch.version.cuda:
        return f"torch is built for CUDA {torch.version.cuda}"
    return "torch is built without GPU support"


def _selftest(name: str, what: str, bad: State, todo: str) -> Check:
    """A kernel of our own in a process apart: it may crash, and it changes what it runs in."""
    words = [sys.executable, "-m", "diffuzz.doctor.selftest", what]
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=_SELFTEST_LIMIT,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check(name, bad, f"self-test still running after {_SELFTEST_LIMIT} s", todo)
    lines = (done.stdout.strip() or done.stderr.strip() or "it died").splitlines()
    if done.returncode == 0:
        return Check(name, "ok", "self-test right, bit for bit")
    return Check(name, bad, f"self-test failed: {lines[-1][:200]}", todo)


def _compiler() -> Check:
    from diffuzz.native.toolchain import cuda_headers, find_compiler

    try:
        compiler = find_compiler()
        cuda_headers()
    except CannotTell as error:
        return Check("C++ compiler", "warn", error.reason, _NO_NATIVE)
    return Check("C++ compiler", "ok", compiler.version)


def _gpu_checks() -> list[Callable[[], Check]]:
    """What only a machine with a GPU is asked."""
    from diffuzz.executors.gpu import present_arch

    if present_arch() not in ARCHS:
        return []
    driver = "Triton cannot use this GPU; check its driver, or use --executor cpu"
    return [lambda: _selftest("Triton on the GPU", "gpu", "red", driver), _toolkit]


def _toolkit() -> Check:
    from diffuzz.native.build_gpu import present_device

    try:
        device = present_device()
    except CannotTell as error:
        todo = "install the CUDA or ROCm toolkit; targets with native ops are untested without"
        return Check("GPU compiler", "warn", error.reason, todo)
    return Check("GPU compiler", "ok", f"{device.toolkit} for {device.name}")


def _index() -> Check:
    """Whether releases can be had; a machine without network works from bundles."""
    offline = "nothing, if you use a repository or a bundle; else check pip's index settings"
    try:
        from diffuzz.sources.archive import Releases

        newest = Releases().available_versions()[:1]
    except ModuleNotFoundError as error:
        return Check("package index", "warn", f"{error.name} is not installed", offline)
    except DiffuzzError as error:
        return Check("package index", "warn", str(error), offline)
    if not newest:
        return Check("package index", "warn", "it has no release of vLLM", offline)
    return Check("package index", "ok", f"newest release {newest[0]}")


def _repository(repo: str | None) -> Check:
    """The repository named, or the clone around the current folder."""
    offline = "nothing, if you use releases or a bundle; else give --repo a clone or its URL"
    if shutil.which("git") is None:
        return Check("repository", "warn", "git is not installed", offline)
    try:
        from diffuzz.sources.repository import Repository
        from diffuzz.sources.revision import vllm_clone

        found = Repository.open(repo) if repo else vllm_clone(Path("."))
        if found is None:
            return Check("repository", "warn", "no vLLM clone around this folder", offline)
        main = found.main_branch()
        shallow = ", shallow" if found.shallow else ""
    except ModuleNotFoundError as error:
        return Check("repository", "warn", f"{error.name} is not installed", offline)
    except DiffuzzError as error:
        return Check("repository", "red" if repo else "warn", str(error), "check --repo")
    if shallow:
        todo = "bisect and timeline need history: git fetch --unshallow"
        return Check("repository", "warn", f"{found}, main branch {main}{shallow}", todo)
    return Check("repository", "ok", f"{found}, main branch {main}")
