"""A revision's unmodified CUDA C++ as a host library, behaving as one architecture does.

Every source file becomes one translation unit: the shim's prelude, the (rewritten) file, and
bindings generated from the op schemas that register it for the CPU key. Floating-point
contraction is off, so that results are the same on every host; a device's compiler contracts
``a*b + c`` by default (:class:`diffuzz.native.op_models.Options` has both).

Builds are kept by content (:func:`build_key`); a build that is refused is kept as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from diffuzz.arch import Arch
from diffuzz.cache import atomic_write, cache_dir, locked
from diffuzz.native.closure import INCLUDE_DIRS, Closure
from diffuzz.native.reasons import NotEmulatable
from diffuzz.native.rewrite import for_host
from diffuzz.native.toolchain import (
    SHIM,
    Compiler,
    cuda_headers,
    environment_id,
    find_compiler,
    torch_root,
    torch_target_version,
)

TIME_LIMIT = 300
ABANDONED_AFTER = 24 * 3600
SANITIZERS = ("-fsanitize=address,undefined,float-cast-overflow", "-fsanitize-recover=all")
_COMMON_FLAGS = [
    *("-std=c++20", "-fPIC", "-w", "-fvisibility=hidden"),
    *("-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv"),
    *("-D__assert_fail=diffuzz_assert_fail", "-DENABLE_FP8"),
]


_UNDEFINED_CUDA = re.compile(r"undefined reference to [`'‘](cu\w+)['’]")


@dataclass(frozen=True)
class BuiltLibrary:
    """``seconds`` is what compiling took, 0 if nothing had to be compiled."""

    path: Path
    ops: tuple[str, ...]
    arch: str
    key: str
    sanitized: bool
    seconds: float = 0.0


class LoadedLibrary:
    """A library whose ops are registered in this process."""

    def __init__(self, path: Path) -> None:
        import torch

        load_library: Callable[[str], None] = torch.ops.load_library  # untyped in torch
        load_library(str(path))
        # A library for a GPU has no such thing.
        self._take = getattr(ctypes.CDLL(str(path)), "diffuzz_take_reports", None)
        if self._take is not None:
            self._take.restype = ctypes.c_size_t

    def take_reports(self) -> str:
        """What the emulation observed since the last call, in the runtime's own lines
        (:func:`diffuzz.native.sanitize.parse_runtime_reports` reads them)."""
        if self._take is None:
            return ""
        buffer = ctypes.create_string_buffer(1 << 17)
        length = self._take(buffer, ctypes.c_size_t(len(buffer)))
        return buffer.raw[:length].decode(errors="replace")


def load(built: BuiltLibrary) -> LoadedLibrary:
    """Register the ops under ``torch.ops`` for CPU tensors; a process can do so once per op."""
    return LoadedLibrary(built.path)


def flags(arch: Arch, *, sanitize: bool, stable: bool) -> list[str]:
    major, minor = arch.capability
    chosen = [
        *_COMMON_FLAGS,
        f"-DDIFFUZZ_WARP={arch.warp_size}",
        f"-DDIFFUZZ_CAPABILITY={10 * major + minor}",
        *(["-DDIFFUZZ_HIP", f"-D__{arch.name}__"] if arch.vendor == "amd" else []),
    ]
    if stable:
        chosen += ["-DDIFFUZZ_STABLE_ABI", f"-DTORCH_TARGET_VERSION={torch_target_version()}"]
    if sanitize:
        return [*chosen, "-O1", "-g1", "-fno-omit-frame-pointer", *SANITIZERS]
    return [*chosen, "-O1"]


def build_key(closure: Closure, arch: Arch, compiler: Compiler, *, sanitize: bool) -> str:
    """What a build depends on. Sanitized builds depend on line numbers too: reports name them."""
    identity = [
        closure.text_hash if sanitize else closure.hash,
        arch.name,
        compiler.version,
        environment_id(),
        flags(arch, sanitize=sanitize, stable=True),
    ]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]


def build(closure: Closure, arch: Arch, *, sanitize: bool = False) -> BuiltLibrary:
    """The library of ``closure`` for ``arch``, compiled only if the cache does not have it.

    Safe with other processes at work on the same one, and with a kill at any moment: a folder
    appears whole. Raises :class:`NoCompiler` or :class:`NotEmulatable`.
    """
    assert closure.rocm == (arch.vendor == "amd"), "the closure is another platform's"
    compiler = find_compiler()
    key = build_key(closure, arch, compiler, sanitize=sanitize)
    folder = cache_dir("native") / key
    if not (folder / "meta.json").is_file():
        with locked(folder.with_suffix(".lock")):
            if not (folder / "meta.json").is_file():
                _build_into(folder, closure, arch, compiler, sanitize)
                fresh = json.loads((folder / "meta.json").read_text())
                return _result(folder, fresh, closure, arch, key, sanitize, fresh["seconds"])
    meta = json.loads((folder / "meta.json").read_text())
    return _result(folder, meta, closure, arch, key, sanitize, 0.0)


def _result(
    folder: Path,
    meta: dict[str, str],
    closure: Closure,
    arch: Arch,
    key: str,
    sanitize: bool,
    seconds: float,
) -> BuiltLibrary:
    if meta.get("refused"):
        raise NotEmulatable(meta["refused"], meta.get("detail", ""))
    ops = tuple(op.name for op in closure.ops)
    return BuiltLibrary(folder / "ops.so", ops, arch.name, key, sanitize, seconds)


def _build_into(
    folder: Path, closure: Closure, arch: Arch, compiler: Compiler, sanitize: bool
) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # what a killed build left has no meta.json
    _sweep(folder.parent)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        meta: dict[str, object] = {"arch": arch.name, "ops": [op.name for op in closure.ops]}
        try:
            _compile(Path(scratch), closure, arch, compiler, sanitize)
        except NotEmulatable as error:
            meta |= {
                "refused": str(error).removeprefix("not emulatable: "),
                "detail": error.detail[-4000:],
            }
        else:
            folder.mkdir()
            Path(scratch, "ops.so").replace(folder / "ops.so")
        folder.mkdir(exist_ok=True)
        meta["seconds"] = round(time.monotonic() - started, 3)
        atomic_write(folder / "meta.json", json.dumps(meta, indent=1).encode())


def _sweep(folder: Path) -> None:
    """Remove the scratch folders of builds that were killed a day or longer ago."""
    for scratch in folder.glob("building-*"):
        with contextlib.suppress(OSError):
            if time.time() - scratch.stat().st_mtime > ABANDONED_AFTER:
                shutil.rmtree(scratch, ignore_errors=True)


def _compile(
    scratch: Path, closure: Closure, arch: Arch, compiler: Compiler, sanitize: bool
) -> None:
    tree = scratch / "src"
    for path, text in closure.files.items():
        copy = tree / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(for_host(text))
    jobs = []
    for number, source in enumerate(closure.sources):
        unit = scratch / f"unit{number}.cpp"
        unit.write_text(unit_text(closure, source))
        stable = all(op.stable for op in closure.ops if op.source == source)
        jobs.append((unit, flags(arch, sanitize=sanitize, stable=stable)))
    # The scheduler switches stacks under the sanitizers' feet: it tells ASan, UBSan has no say.
    jobs.append((SHIM / "diffuzz_runtime.cpp", flags(arch, sanitize=sanitize, stable=False)))
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda job: _compile_unit(compiler, scratch, tree, *job), jobs))
    _link(compiler, scratch, objects, sanitize)


def unit_text(closure: Closure, source: str) -> str:
    """The translation unit of one source file, with the bindings of its ops."""
    lines = ['#include "diffuzz_prelude.h"', f'#include "{source}"', "#undef assert"]
    for op in closure.ops:
        if op.source != source:
            continue
        prefix = "STABLE_" if op.stable else ""
        function = f"TORCH_BOX(&{op.function})" if op.stable else f"&{op.function}"
        schema = json.dumps(" ".join(op.schema.split()))
        lines += [
            f"{prefix}TORCH_LIBRARY_FRAGMENT({op.namespace}, ops) {{ ops.def({schema}); }}",
            f"{prefix}TORCH_LIBRARY_IMPL({op.namespace}, CPU, ops) "
            f'{{ ops.impl("{op.name}", {function}); }}',
        ]
    return "\n".join(lines) + "\n"


def _compile_unit(
    compiler: Compiler, scratch: Path, tree: Path, unit: Path, options: list[str]
) -> Path:
    output = scratch / f"{unit.stem}.o"
    torch_include = torch_root() / "include"
    command = [
        compiler.path,
        *options,
        f"-ffile-prefix-map={tree}/=",
        *(f"-I{tree / folder}" for folder in ("", *INCLUDE_DIRS)),
        *("-isystem", str(SHIM)),
        *("-isystem", str(torch_include)),
        *("-isystem", str(torch_include / "torch/csrc/api/include")),
        *("-isystem", str(cuda_headers())),
        *("-c", str(unit), "-o", str(output)),
    ]
    _run(command, scratch)
    return output


def _link(compiler: Compiler, scratch: Path, objects: list[Path], sanitize: bool) -> None:
    """Link, with a refusal in the place of every CUDA function that is not emulated."""
    libraries = torch_root() / "lib"
    # clang leaves the sanitizers' own symbols to the process, as gcc does not.
    strict = ["-shared-libasan"] if sanitize and compiler.is_clang else ["-Wl,-z,defs"]
    command = [
        *(compiler.path, "-shared", *(SANITIZERS if sanitize else ()), *strict),
        *("-Wl,-Bsymbolic", f"-L{libraries}", "-ltorch_cpu", "-ltorch", "-lc10"),
        *("-o", str(scratch / "ops.so")),
    ]
    try:
        _run([*command[:2], *map(str, objects), *command[2:]], scratch)
    except NotEmulatable as error:
        missing = sorted(set(_UNDEFINED_CUDA.findall(error.detail)))
        if not missing:
            raise
        stubs = scratch / "stubs.cpp"
        stubs.write_text(
            "namespace diffuzz { [[noreturn]] void refuse(const char*); }\n"
            + "".join(f'extern "C" int {n}() {{ ::diffuzz::refuse("{n}"); }}\n' for n in missing)
        )
        _run([*command[:2], *map(str, [*objects, stubs]), "-fPIC", *command[2:]], scratch)


def _run(command: list[str], scratch: Path) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False, cwd=scratch
        )
    except subprocess.TimeoutExpired:
        raise NotEmulatable(f"compiling takes more than {TIME_LIMIT} s") from None
    if done.returncode != 0:
        raise NotEmulatable(_first_problem(done.stderr, scratch), done.stderr)


def _first_problem(stderr: str, scratch: Path) -> str:
    """One line that says what the compiler or linker could not do."""
    text = stderr.replace(f"{scratch / 'src'}/", "")
    told = re.search(r"diffuzz: not emulatable: ([^\"'\n]+)", text)
    if told:
        return told.group(1).strip()
    undefined = re.search(r"undefined reference to [`'‘]([^'’]+)", text)
    if undefined:
        return f"undefined {undefined.group(1)}"
    error = re.search(
        r"^(?P<file>[^\s:]+):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<what>.*)$", text, re.M
    )
    if error:
        return f"{Path(error['file']).name}:{error['line']}: {error['what'][:90]}"
    return "the host compiler failed"
