"""Our own kernel, compiled for the host as three architectures, and with planted mistakes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from diffuzz.arch import get_arch
from diffuzz.cache import cache_dir
from diffuzz.native import build_cpu, toolchain
from diffuzz.native.reasons import NoCompiler, NotEmulatable, refusal
from diffuzz.native.sanitize import parse_runtime_reports
from diffuzz.numerics.formats import FORMATS, encode
from tests.native.toy import (
    BLOCK,
    FILES,
    KERNEL_PATH,
    OP,
    PAGES,
    build,
    closure_of,
    line_of,
    mutated,
    run,
)

pytestmark = pytest.mark.slow  # each build takes seconds

SLOTS = [5, -1, 2, 11]


def truth(request: dict, arch: str) -> torch.Tensor:
    """The cache that the op must leave, worked out in float32 as it says."""
    a = get_arch(arch)
    limit = 240.0 if a.is_fnuz else 448.0
    cache = request["cache"].clone()
    for row, slot in zip(request["x"], request["slots"].tolist(), strict=True):
        if slot >= 0:
            scale = (row.abs().amax() / limit).clamp(min=torch.finfo(torch.float32).tiny)
            scaled = (row * torch.tensor(request["gain"]) / scale).clamp(-limit, limit)
            codes = encode(scaled.double(), FORMATS[a.e4m3], "saturate")
            cache[slot // BLOCK, slot % BLOCK, :64] = codes.to(torch.uint8)
    return cache


def visible(cache: torch.Tensor) -> torch.Tensor:
    return cache[:, :BLOCK, :64]


@pytest.mark.parametrize("arch", ["sm90", "gfx942", "gfx950"])
def test_the_kernel_does_what_each_architecture_does(tmp_path, arch):
    built = build(tmp_path, arch)
    for gain in (1.0, 2.5):
        request, reply, _ = run(built, tmp_path, SLOTS, gain=gain)
        assert torch.equal(reply["cache"], visible(truth(request, arch)))
        assert reply["reports"] == ""


def test_a_second_build_compiles_nothing_and_comments_share_it(tmp_path):
    first = build(tmp_path / "a", "sm90")
    again = build(tmp_path / "b", "sm90")
    commented = {**FILES, KERNEL_PATH: "// a note\n" + FILES[KERNEL_PATH]}
    shared = build(tmp_path / "c", "sm90", commented)
    assert again.path == first.path == shared.path
    assert again.seconds == shared.seconds == 0.0
    assert build_cpu.build_key(
        closure_of(tmp_path / "d", commented),
        get_arch("sm90"),
        toolchain.find_compiler(),
        sanitize=True,
    ) != build_cpu.build_key(
        closure_of(tmp_path / "e"), get_arch("sm90"), toolchain.find_compiler(), sanitize=True
    )


MISTAKES = {
    "wrong stride": (
        "slot / block_size * page_stride + slot",
        "slot / block_size * block_size * row_stride + slot",
    ),
    "missing clamp": ("v = fminf(fmaxf(v, -kLimit), kLimit);", ""),
    "lane exits before a shuffle": (
        "if (slot < 0) return;",
        "if (slot < 0 || lane >= 24) return;",
    ),
}


@pytest.mark.parametrize("mistake", ["wrong stride", "missing clamp"])
def test_a_planted_mistake_gives_other_results(tmp_path, mistake):
    built = build(tmp_path, "sm90", mutated(*MISTAKES[mistake]))
    request, reply, _ = run(built, tmp_path, SLOTS, gain=2.5)
    assert not torch.equal(reply["cache"], visible(truth(request, "sm90")))


def test_a_lane_that_left_before_a_shuffle_is_named(tmp_path):
    built = build(tmp_path, "gfx942", mutated(*MISTAKES["lane exits before a shuffle"]))
    _, reply, _ = run(built, tmp_path, [1])
    reports = parse_runtime_reports(reply["reports"])
    assert {r.kind for r in reports} == {"uninitialised"}
    assert "a shuffle reads lane 24, which does not take part" in reports[0].message
    location = reports[0].location
    line = line_of("__shfl_xor(v, step", "csrc/lanes.cuh")
    assert (location.file, location.line) == ("csrc/lanes.cuh", line)


def test_lanes_that_wait_for_each_other_are_a_hang(tmp_path):
    diverged = mutated(
        "  float const largest = ",
        "  if (lane < 8) __syncthreads();\n  float const largest = ",
    )
    built = build(tmp_path, "sm90", diverged)
    _, reply, _ = run(built, tmp_path, [1])
    (report, *_) = parse_runtime_reports(reply["reports"])
    assert (report.kind, report.location.file) == ("hang", "csrc/lanes.cuh")


def test_what_is_not_emulated_is_refused_when_it_is_reached(tmp_path):
    refused = {
        "__shared__ float s[4]; s[0] = 1;": "__shared__ memory",
        "extern __shared__ float d[]; d[0] = 1;": "dynamic shared memory",
        'asm volatile("bar.arrive 1, 64;");': "asm bar.arrive",
        "scales[0] = __expf(1.0f);": "__expf",
    }
    lines = " ".join(f"if (gain == {n}.0f) {{ {line} }}" for n, line in enumerate(refused))
    built = build(tmp_path, "sm90", mutated("  if (slot < 0) return;", lines))
    for number, reason in enumerate(refused.values()):
        with pytest.raises(AssertionError) as raised:
            run(built, tmp_path, [1], gain=float(number))
        assert refusal(str(raised.value)) == f"not emulatable: {reason}"
    run(built, tmp_path, [1], gain=9.0)  # other cases are none the worse


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("#include <cfloat>", "#include <cub/cub.cuh>", "cub"),
        ("fabsf(v.x)", "tensor_core(v.x)", "insert_kernel.cu:"),
        ("fabsf(v.x)", "elsewhere(v.x)", "undefined elsewhere(float)"),
    ],
)
def test_what_does_not_build_is_refused_once_and_remembered(tmp_path, old, new, reason):
    files = mutated(old, new)
    if "elsewhere" in new:
        files[KERNEL_PATH] = files[KERNEL_PATH].replace(
            "namespace toy {", "float elsewhere(float);\nnamespace toy {", 1
        )
    for _ in range(2):
        with pytest.raises(NotEmulatable) as raised:
            build(tmp_path, "sm90", files)
        assert raised.value.reason.startswith(f"not emulatable: {reason}")


def test_without_a_compiler_it_says_so(tmp_path, monkeypatch):
    closure = closure_of(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NoCompiler) as raised:
        build_cpu.build(closure, get_arch("sm90"))
    assert "no g++ or clang++ on this machine" in raised.value.reason
    assert "\n" not in raised.value.reason
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NoCompiler, match="CXX=no-such-compiler does not run"):
        build_cpu.build(closure, get_arch("sm90"))


def _build_and_tell(folder, queue):
    built = build(folder, "gfx950")
    queue.put((str(built.path), built.seconds))


def test_two_processes_build_once(tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "cache"))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [
        context.Process(target=_build_and_tell, args=(tmp_path / name, queue)) for name in "ab"
    ]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert len({path for path, _ in results}) == 1
    assert sorted(seconds > 0 for _, seconds in results) == [False, True]


def test_a_killed_build_leaves_nothing_in_the_way(tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "cache"))
    closure_of(tmp_path / "tree")
    script = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[2]); from tests.native import toy; "
        "toy.build(pathlib.Path(sys.argv[1]), 'sm90')"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "tree"), str(Path(__file__).parents[2])],
        start_new_session=True,
    )
    native = cache_dir("native")
    while child.poll() is None and not list(native.glob("building-*/unit0.cpp")):
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not list(native.glob("*/meta.json"))
    (left,) = native.glob("building-*")
    os.utime(left, (0, 0))
    built = build(tmp_path / "tree", "sm90")
    assert built.path.is_file()
    assert not left.exists()
    assert json.loads((built.path.parent / "meta.json").read_text())["ops"] == [OP]
    run(built, tmp_path, [PAGES * BLOCK - 1])
