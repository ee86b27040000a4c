"""Faults that only a sanitizer sees, named with their line in the kernel."""

from __future__ import annotations

import os

import pytest

from diffuzz.native.sanitize import parse_reports, sanitized_environment
from diffuzz.outcome import Location, Report
from tests.native.toy import BLOCK, KERNEL_PATH, PAGES, build, line_of, mutated, run

STORE = line_of("row[lane * 2] =")


def places(stderr: str) -> set[tuple[str, str, int]]:
    return {(r.kind, r.location.file, r.location.line) for r in parse_reports(stderr)}


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    return build(tmp_path_factory.mktemp("tree"), "sm90", sanitize=True)


@pytest.mark.slow
def test_a_right_run_has_no_report(sanitized, tmp_path):
    _, reply, stderr = run(sanitized, tmp_path, [5, -1, 2], environment=environment())
    assert parse_reports(stderr) == []
    assert reply["reports"] == ""


def environment() -> dict[str, str]:
    return sanitized_environment(os.environ)


@pytest.mark.slow
def test_a_slot_outside_the_cache_is_named_with_its_line(sanitized, tmp_path):
    _, _, stderr = run(sanitized, tmp_path, [PAGES * BLOCK + 1], environment=environment())
    assert ("out-of-bounds", KERNEL_PATH, STORE) in places(stderr)
    first = parse_reports(stderr)[0]
    assert first.message == "write of 1 bytes: heap buffer overflow"
    assert first.location.function == "insert_kernel"


@pytest.mark.slow
def test_a_poisoned_row_is_guarded(sanitized, tmp_path):
    clean = run(sanitized, tmp_path, [2], poison=[(0, 1), (0, 3)], environment=environment())
    assert parse_reports(clean[2]) == []
    _, _, stderr = run(sanitized, tmp_path, [3], poison=[(0, 3)], environment=environment())
    assert ("out-of-bounds", KERNEL_PATH, STORE) in places(stderr)
    assert "use after poison" in parse_reports(stderr)[0].message


@pytest.mark.slow
def test_a_missing_check_of_the_slot_is_found(tmp_path):
    built = build(tmp_path, "sm90", mutated("if (slot < 0) return;", ""), sanitize=True)
    _, _, stderr = run(built, tmp_path, [-1], environment=environment())
    kinds = places(stderr)
    assert any(k == "out-of-bounds" and f == KERNEL_PATH for k, f, _ in kinds)


def test_sanitizer_output_is_parsed():
    stderr = """
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x7f bp 0x7f sp 0x7f
WRITE of size 16 at 0x60 thread T0
    #0 0x7f01 in memcpy (/lib/libasan.so+0x1)
    #1 0x7f02 in void (anonymous namespace)::copy<float, 3>(float*) csrc/a/../b.cuh:12
    #2 0x7f03 in kernel csrc/k.cu:40
csrc/k.cu:9:7: runtime error: load of misaligned address 0x7ffe12 for type 'const uint4'
csrc/k.cu:9:7: runtime error: load of misaligned address 0x7ffe22 for type 'const uint4'
/cache/building-x1/src/csrc/k.cu:10: runtime error: -1 is outside the range of type 'char'
diffuzz-gpu: hang\tcsrc/k.cu\t3\t1,0,0\t5,0,0\ta warp operation waits
/usr/include/c++/12/bits/x.h:1:1: runtime error: not ours
"""
    overflow, misaligned, conversion, hang = parse_reports(stderr)
    assert overflow == Report(
        "out-of-bounds",
        "write of 16 bytes: heap buffer overflow",
        location=Location("csrc/b.cuh", 12, "copy"),
    )
    assert misaligned.kind == "crash"
    assert "ADDRESS" in misaligned.message
    assert (conversion.kind, conversion.location.line) == ("wrong-result", 10)
    assert (hang.kind, hang.program, hang.location.line) == ("hang", (1, 0, 0), 3)
