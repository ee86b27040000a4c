"""Running a sanitized build, and reading what it and the emulation say.

ASan has to be in a process from its start: :func:`sanitized_environment` says how. What tensors
hold is then guarded by torch's own allocations; :func:`poisoned_spans` guards parts of them too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import posixpath
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from diffuzz.native.reasons import NoCompiler
from diffuzz.native.toolchain import Compiler, find_compiler
from diffuzz.outcome import Location, Report

_ASAN_OPTIONS = (
    "detect_leaks=0:halt_on_error=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:"
    "verify_asan_link_order=0:allocator_may_return_null=1:handle_segv=1"
)
_UBSAN_OPTIONS = "halt_on_error=0:print_stacktrace=0"
_SANITIZER_ERROR = re.compile(r"ERROR: AddressSanitizer:? (?P<what>[\w-]+)")
_ACCESS = re.compile(r"^(?P<access>READ|WRITE) of size (?P<size>\d+)", re.M)
# Some name files where they were compiled: below a scratch folder.
_FRAME = re.compile(
    r"^\s*#\d+ 0x[0-9a-f]+ in (?P<function>.*?) (?:\S*?/)?(?P<file>csrc/\S+?):(?P<line>\d+)",
    re.M,
)
_UNDEFINED = re.compile(
    r"^(?:[^\s:]*?/)?(?P<file>csrc/\S+?):(?P<line>\d+):(?:\d+:)? runtime error: (?P<what>.*)$",
    re.M,
)
_RUNTIME = re.compile(
    r"^(?:diffuzz-gpu: )?(?P<kind>[\w-]+)\t(?P<file>[^\t]*)\t(?P<line>\d+)\t"
    r"(?P<block>\d+,\d+,\d+)\t(?P<thread>\d+,\d+,\d+)\t(?P<text>.*)$",
    re.M,
)


@lru_cache(maxsize=4)
def _sanitizer_library(compiler: Compiler) -> str:
    machine = "aarch64" if platform.machine() == "arm64" else platform.machine()
    name = f"libclang_rt.asan-{machine}.so" if compiler.is_clang else "libasan.so"
    done = subprocess.run(
        [compiler.path, f"-print-file-name={name}"], capture_output=True, text=True, check=False
    )
    path = os.path.realpath(done.stdout.strip())
    if not os.path.isfile(path):
        raise NoCompiler(f"{compiler.version.partition(' ')[0]} has no {name}; no sanitized runs")
    return path


def _symbolizer(compiler: Compiler) -> dict[str, str]:
    """gcc's ASan reads line numbers itself, clang's asks a program."""
    if not compiler.is_clang:
        return {}
    asked = subprocess.run(
        [compiler.path, "-print-prog-name=llvm-symbolizer"],
        capture_output=True,
        text=True,
        check=False,
    )
    path = shutil.which(asked.stdout.strip())
    if path is None:
        raise NoCompiler("clang++ without llvm-symbolizer: install it (llvm) or g++")
    return {"ASAN_SYMBOLIZER_PATH": path}


def sanitized_environment(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with what a process needs to load sanitized builds.

    Such a process must not have a limit on its address space. Raises :class:`NoCompiler`.
    """
    compiler = find_compiler()
    preload = [_sanitizer_library(compiler), *filter(None, [base.get("LD_PRELOAD")])]
    return {
        **base,
        **_symbolizer(compiler),
        "LD_PRELOAD": " ".join(preload),
        "ASAN_OPTIONS": _ASAN_OPTIONS,
        "UBSAN_OPTIONS": _UBSAN_OPTIONS,
    }


def parse_reports(stderr: str) -> list[Report]:
    """What ASan, UBSan and the emulated GPU said in ``stderr``, in no order, each once."""
    reports = [*_address_reports(stderr), *_undefined_reports(stderr)]
    reports += parse_runtime_reports(stderr)
    return list(dict.fromkeys(reports))


def parse_runtime_reports(text: str) -> list[Report]:
    """The emulation's own lines (:meth:`LoadedLibrary.take_reports`)."""
    reports = []
    for m in _RUNTIME.finditer(text):
        program = tuple(int(n) for n in m["block"].split(","))
        message = f"{m['text']} (thread {m['thread']})"
        location = _location(m["file"], m["line"])
        reports.append(Report(m["kind"], message, location=location, program=program))
    return reports


def _location(file: str, line: str, function: str = "") -> Location:
    return Location(posixpath.normpath(file), int(line), function)


def _bare_function(signature: str) -> str:
    """``copy`` of ``void vllm::(anonymous namespace)::copy<float>(float*)``."""
    text = signature.replace("(anonymous namespace)::", "")
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    name = re.search(r"([\w~]+)\s*(?:\(|$)", text)
    return name.group(1) if name else ""


def _address_reports(stderr: str) -> Iterator[Report]:
    starts = [m.start() for m in _SANITIZER_ERROR.finditer(stderr)]
    for number, start in enumerate(starts):
        block = stderr[start : starts[number + 1] if number + 1 < len(starts) else len(stderr)]
        error = _SANITIZER_ERROR.match(block)
        assert error is not None
        access, frame = _ACCESS.search(block), _FRAME.search(block)
        where = f"{access['access'].lower()} of {access['size']} bytes" if access else "access"
        what = error["what"].replace("-", " ")
        location = (
            _location(frame["file"], frame["line"], _bare_function(frame["function"]))
            if frame
            else None
        )
        kind = "crash" if error["what"] in ("SEGV", "BUS", "FPE", "ILL") else "out-of-bounds"
        yield Report(kind, f"{where}: {what}", location=location)


def _undefined_reports(stderr: str) -> Iterator[Report]:
    for m in _UNDEFINED.finditer(stderr):
        what = re.sub(r"0x[0-9a-f]+", "ADDRESS", m["what"])
        yield Report(_undefined_kind(what), what, location=_location(m["file"], m["line"]))


def _undefined_kind(what: str) -> str:
    """A misaligned vector access traps on a GPU; a conversion out of range gives some number."""
    if "misaligned" in what or "null pointer" in what or "unreachable" in what:
        return "crash"
    return "out-of-bounds" if "out of bounds" in what else "wrong-result"


@contextlib.contextmanager
def poisoned_spans(spans: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Every access to the ``spans`` (address, bytes) of memory is a report meanwhile.

    Only in a process of :func:`sanitized_environment`; :class:`RuntimeError` elsewhere. ASan
    works in units of 8 bytes: what of a span does not fill one is not guarded.
    """
    process = ctypes.CDLL(None)
    if not hasattr(process, "__asan_poison_memory_region"):
        raise RuntimeError("this process does not run under ASan")
    units = [(-(-start // 8) * 8, (start + size) // 8 * 8) for start, size in spans]
    regions = [
        (ctypes.c_void_p(start), ctypes.c_size_t(end - start))
        for start, end in units
        if end > start
    ]
    for region in regions:
        process.__asan_poison_memory_region(*region)
    try:
        yield
    finally:
        for region in regions:
            process.__asan_unpoison_memory_region(*region)
