"""Planted faults are reported with the right line and program; clean kernels with nothing."""

from __future__ import annotations

import random

import pytest
import torch

from diffuzz.executors.ttir.errors import KernelFault
from diffuzz.executors.ttir.launch import Launcher
from diffuzz.outcome import Report

from . import kernels
from .conftest import Start
from .kernels import line_of


def only(launcher: Launcher) -> Report:
    (report,) = launcher.reports
    return report


def check(report: Report, kind: str, mark: str, argument: str) -> None:
    assert report.kind == kind, report
    assert report.location is not None
    assert report.location.file.endswith("tests/ttir/kernels.py")
    assert report.location.line == line_of(mark)
    assert report.argument == argument


def test_read_past_the_end(start: Start) -> None:
    launcher = start()
    y = torch.zeros(100)
    kernels.read_past[(4,)](torch.ones(100), y, 100, 32)
    report = only(launcher)
    check(report, "out-of-bounds", "read past", "X")
    assert report.location is not None
    assert report.location.function == "read_past"
    assert report.program == (3, 0, 0)
    assert y.tolist() == [1.0] * 100


def test_write_past_the_end_and_nothing_is_written_there(start: Start) -> None:
    launcher = start()
    whole = torch.zeros(128)
    kernels.write_past[(4,)](torch.ones(100), whole[:100].clone(), 100, 32)
    report = only(launcher)
    check(report, "out-of-bounds", "write past", "Y")
    assert report.program == (3, 0, 0)
    assert "28 elements" in report.message


def test_mask_off_by_one(start: Start) -> None:
    launcher = start()
    kernels.mask_off_by_one[(4,)](torch.ones(100), torch.zeros(100), 100, 32)
    report = only(launcher)
    check(report, "out-of-bounds", "off by one", "Y")
    assert report.program == (3, 0, 0)
    assert "byte 400 of 400" in report.message


def test_a_view_is_the_bound_and_not_its_storage(start: Start) -> None:
    launcher = start()
    padded = torch.zeros(4, 48)
    kernels.write_past[(1,)](torch.ones(64), padded[1, :40], 40, 64)
    report = only(launcher)
    check(report, "out-of-bounds", "write past", "Y")
    assert "outside its view" in report.message
    launcher.clear()
    # Row 1 of a strided view: in range, but the padding between rows is not the view's.
    kernels.write_past[(1,)](torch.ones(64), padded[:, :32], 64, 64)
    assert "outside its view" in only(launcher).message
    launcher.clear()
    kernels.scale_rows[(4,)](padded[:, :32], padded[:, :32], 32, 48, 2.0, 32)
    assert launcher.reports == []


def test_different_values_written_by_two_programs(start: Start) -> None:
    launcher = start()
    x = torch.arange(256.0).view(8, 32)
    kernels.same_row[(8,)](x, torch.zeros(8, 32), 1, 32)
    assert launcher.reports == []
    kernels.same_row[(8,)](x, torch.zeros(8, 32), 2, 32)
    report = only(launcher)
    check(report, "race", "two writers", "Y")
    assert report.program is not None
    launcher.clear()
    kernels.same_row[(8,)](torch.ones(8, 32), torch.zeros(8, 32), 2, 32)
    assert launcher.reports == [], "equal values are no race"


@pytest.mark.parametrize("together", [1, 4096])
def test_races_do_not_depend_on_grouping(start: Start, together: int) -> None:
    launcher = start(max_programs=together)
    x = torch.arange(256.0).view(8, 32)
    kernels.same_row[(8,)](x, torch.zeros(8, 32), 2, 32)
    check(only(launcher), "race", "two writers", "Y")
    launcher.clear()
    kernels.shift_in_place[(7,)](torch.arange(256.0).view(8, 32), 32)
    assert {r.kind for r in launcher.reports} == {"race"}
    lines = {r.location.line for r in launcher.reports if r.location is not None}
    assert lines <= {line_of("reads what others write"), line_of("writes what others read")}


def test_a_program_may_read_and_write_its_own_row_again(start: Start) -> None:
    launcher = start()
    for n in (32, 20, 7):
        x = torch.ones(8, n)
        kernels.twice_in_place[(8,)](x, n, 32)
        assert launcher.reports == []
        assert x.tolist() == [[4.0] * n] * 8


def test_programs_that_synchronise_by_atomics_are_not_blamed(start: Start) -> None:
    launcher = start()
    x = torch.arange(128.0)
    for sem, races in (("acq_rel", 0), ("relaxed", 1)):
        out = torch.zeros(1)
        counter = torch.zeros(1, dtype=torch.int32)
        kernels.last_one_sums[(8,)](x, torch.zeros(8), counter, out, 8, 16, sem)
        assert out.item() == x.sum().item()
        assert len(launcher.reports) == races
    check(only(launcher), "race", "reads all partials", "Partial")


def test_two_lanes_of_one_program(start: Start) -> None:
    launcher = start()
    index = torch.arange(32, dtype=torch.int32)
    kernels.scatter_by_index[(1,)](torch.arange(32.0), torch.zeros(32), index, 32)
    assert launcher.reports == []
    kernels.scatter_by_index[(1,)](torch.arange(32.0), torch.zeros(32), index // 2, 32)
    report = only(launcher)
    check(report, "race", "two lanes", "Y")
    assert "one program" in report.message


def test_read_of_memory_nobody_wrote(start: Start) -> None:
    launcher = start()
    x, y = torch.zeros(64), torch.zeros(64)
    launcher.mark_uninitialised(x)
    kernels.half_then_all[(2,)](x, y, 40, 32)
    report = only(launcher)
    check(report, "uninitialised", "unwritten", "X")
    assert report.program == (1, 0, 0)
    assert "byte 160" in report.message
    launcher.reports.clear()
    kernels.masked_copy[(2,)](x, y, 40, 32)
    assert launcher.reports == [], "what a launch wrote stays written for the next"
    launcher.clear()
    kernels.masked_copy[(2,)](x, y, 64, 32)
    assert launcher.reports == []


def test_only_the_marked_view_is_uninitialised(start: Start) -> None:
    launcher = start()
    pages = torch.zeros(4, 32)
    launcher.mark_uninitialised(pages[2])
    kernels.masked_copy[(1,)](pages[1], torch.zeros(32), 32, 32)
    assert launcher.reports == []
    kernels.masked_copy[(1,)](pages[2], torch.zeros(32), 32, 32)
    assert only(launcher).kind == "uninitialised"


def test_offset_overflow_shows_on_virtual_tensors(start: Start) -> None:
    launcher = start()
    rows, stride = 40000, 1 << 17
    x = torch.empty(rows, stride, device="meta", dtype=torch.bfloat16)
    y = torch.empty(rows, 32, device="meta", dtype=torch.bfloat16)
    kernels.far_offset[(rows,)](x, y, stride, 32, True)
    assert launcher.reports == []
    kernels.far_offset[(rows,)](x, y, stride, 32, False)
    report = only(launcher)
    check(report, "out-of-bounds", "far", "X")
    assert report.program is not None
    assert report.program[0] * stride >= 1 << 31


def test_misaligned_access(start: Start) -> None:
    launcher = start()
    kernels.misaligned[(1,)](torch.zeros(8))
    report = only(launcher)
    check(report, "out-of-bounds", "misaligned", "Y")
    assert "misaligned" in report.message


def test_device_assertions_stop_the_kernel(start: Start) -> None:
    start()
    x = torch.arange(8, dtype=torch.int32)
    kernels.checked[(8,)](x, 8, debug=True)
    with pytest.raises(KernelFault, match="x is too large") as caught:
        kernels.checked[(8,)](x, 5, debug=True)
    assert caught.value.kind == "assertion"
    assert caught.value.program == (5, 0, 0)
    assert caught.value.location is not None
    assert caught.value.location.line == line_of("asserted")


def test_endless_loops_are_hangs(start: Start) -> None:
    start(max_iterations=200)
    with pytest.raises(KernelFault, match="200 iterations") as caught:
        kernels.endless[(3,)](torch.zeros(4, dtype=torch.int32), 5)
    assert caught.value.kind == "hang"


def test_a_thousand_random_clean_launches_are_clean(start: Start) -> None:
    launcher = start()
    draw = random.Random(11)
    for _ in range(1000):
        rows, n = draw.randint(1, 20), draw.randint(1, 60)
        pad = draw.choice([0, 0, 4, 9])
        block = draw.choice([64, 128])
        dtype = draw.choice([torch.float32, torch.bfloat16, torch.float16])
        x = torch.ones(rows, n + pad)[:, :n]
        match draw.randint(0, 3):
            case 0:
                y = torch.zeros(rows, n + pad, dtype=dtype)[:, :n]
                launcher.mark_uninitialised(y)
                kernels.scale_rows[(rows,)](x, y, n, n + pad, 3.0, block)
                assert bool((y == 3).all())
            case 1:
                flat = torch.zeros(rows * n)
                grid = (-(-rows * n // block),)
                kernels.masked_copy[grid](torch.ones(rows * n), flat, rows * n, block)
                assert bool((flat == 1).all())
            case 2:
                square = torch.ones(rows, n)
                kernels.twice_in_place[(rows,)](square, n, block)
                assert bool((square == 4).all())
            case _:
                counts = torch.zeros(4, dtype=torch.int32)
                data = torch.randint(0, 4, (rows * n,), dtype=torch.int32)
                kernels.bins[(-(-rows * n // block),)](data, counts, rows * n, block)
                assert counts.tolist() == torch.bincount(data, minlength=4).tolist()
        assert launcher.reports == []
        launcher.clear()
