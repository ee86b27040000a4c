"""Operations that act on the outside, and addresses as integers."""

from __future__ import annotations

import pytest
import torch

from diffuzz.executors.ttir.errors import KernelFault, Unsupported

from .irtext import execute, function

IDS = """%x = tt.get_program_id x : i32
    %p = tt.addptr %p0, %x : !tt.ptr<i32>, i32
    %v = tt.load %p : !tt.ptr<i32>
    """


def test_prints_are_kept() -> None:
    x = torch.tensor([7, 8], dtype=torch.int32)
    body = IDS + 'tt.print "value: " {hex = false, isSigned = array<i32: 1>} : %v : i32'
    run = execute(function([torch.int32], body), [x], (2, 1, 1))
    assert run.printed == ["value:  %v=[7, 8]"]


@pytest.mark.parametrize(
    "name", ["gpu.barrier", "ttg.barrier local", "ttg.local_barrier", "tt.fence"]
)
def test_barriers_change_nothing(name: str) -> None:
    x = torch.tensor([7, 8], dtype=torch.int32)
    body = IDS + f"{name}\n    tt.store %p, %x : !tt.ptr<i32>"
    execute(function([torch.int32], body), [x], (2, 1, 1))
    assert x.tolist() == [0, 1]


def test_assertions_and_assumptions_name_the_program() -> None:
    x = torch.tensor([1, 1, 0, 1, 0], dtype=torch.int32)
    condition = IDS + "%c = arith.trunci %v : i32 to i1\n"
    for line, message in (
        ('tt.assert %c, "must hold" : i1', "must hold"),
        ("llvm.intr.assume %c : i1", "assume"),
    ):
        with pytest.raises(KernelFault, match=message) as caught:
            execute(function([torch.int32], condition + line), [x], (5, 1, 1))
        assert caught.value.program == (2, 0, 0)
        execute(function([torch.int32], condition + line), [torch.ones_like(x)], (5, 1, 1))


def test_addresses_survive_being_integers() -> None:
    x = torch.tensor([7, 8], dtype=torch.int32)
    body = (
        IDS
        + """%n = tt.ptr_to_int %p : !tt.ptr<i32> -> i64
    %q = tt.int_to_ptr %n : i64 -> !tt.ptr<i32>
    %w = tt.load %q : !tt.ptr<i32>
    %y = arith.addi %w, %v : i32
    tt.store %q, %y : !tt.ptr<i32>"""
    )
    run = execute(function([torch.int32], body), [x], (2, 1, 1))
    assert x.tolist() == [14, 16]
    assert run.reports == []


def test_loops_over_unsigned_ranges_are_refused() -> None:
    body = (
        IDS
        + """%one = arith.constant 1 : i32
    scf.for unsigned %i = %one to %v step %one : i32 {
      tt.store %p, %i : !tt.ptr<i32>
    }"""
    )
    with pytest.raises(Unsupported, match=r"scf\.for unsigned"):
        execute(function([torch.int32], body), [torch.tensor([4], dtype=torch.int32)])
