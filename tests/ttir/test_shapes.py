"""Operations that move values, and those that make them."""

from __future__ import annotations

import pytest
import torch

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.plan import plan
from diffuzz.executors.ttir.reader import read
from diffuzz.numerics.formats import widen

from .irtext import ELEM, apply, execute, function, store_lines


def grid(*shape: int) -> torch.Tensor:
    total = 1
    for n in shape:
        total *= n
    return torch.arange(total, dtype=torch.int32).reshape(shape)


def test_reshape_transpose_and_expand() -> None:
    x = grid(2, 3, 4)
    text = "%out = tt.reshape {0} : tensor<2x3x4xi32> -> tensor<4x6xi32>"
    assert torch.equal(apply(text, [x], torch.int32, [4, 6]), x.reshape(4, 6))
    text = (
        "%out = tt.trans {0} {{order = array<i32: 2, 0, 1>}} : tensor<2x3x4xi32>"
        " -> tensor<4x2x3xi32>"
    )
    assert torch.equal(apply(text, [x], torch.int32, [4, 2, 3]), x.permute(2, 0, 1))
    text = """%e = tt.expand_dims {0} {{axis = 1 : i32}} : tensor<5xi32> -> tensor<5x1xi32>
    %out = tt.broadcast %e : tensor<5x1xi32> -> tensor<5x3xi32>"""
    y = grid(5)
    assert torch.equal(apply(text, [y], torch.int32, [5, 3]), y[:, None].expand(5, 3))


def test_join_split_and_cat() -> None:
    a, b = grid(4), grid(4) + 100
    joined = apply(
        "%out = tt.join {0}, {1} : tensor<4xi32> -> tensor<4x2xi32>", [a, b], torch.int32, [4, 2]
    )
    assert torch.equal(joined, torch.stack([a, b], -1))
    text = """%l, %r = tt.split {0} : tensor<4x2xi32> -> tensor<4xi32>
    %out = arith.subi %r, %l : tensor<4xi32>"""
    assert apply(text, [joined], torch.int32, [4]).tolist() == [100] * 4
    text = "%out = tt.cat {0}, {1} : tensor<4xi32> -> tensor<8xi32>"
    assert torch.equal(apply(text, [a, b], torch.int32, [8]), torch.cat([a, b]))


def test_gather_along_an_axis() -> None:
    x, index = grid(4, 3), torch.tensor([[3, 0, 1], [0, 2, 2]], dtype=torch.int32)
    text = (
        "%out = tt.gather {0}[{1}] {{axis = 0 : i32}} :"
        " (tensor<4x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>"
    )
    got = apply(text, [x, index], torch.int32, [2, 3])
    assert torch.equal(got, x.gather(0, index.long()))
    with pytest.raises(Unsupported, match="outside its axis"):
        apply(text, [x, index + 2], torch.int32, [2, 3])


def test_histogram_counts_what_is_in_range() -> None:
    x = torch.tensor([0, 1, 1, 3, 7, -1, 3, 3], dtype=torch.int32)
    text = "%out = tt.histogram {0} : tensor<8xi32> -> tensor<4xi32>"
    assert apply(text, [x], torch.int32, [4]).tolist() == [1, 2, 0, 3]
    text = """%zero = arith.constant dense<0> : tensor<8xi32>
    %m = arith.cmpi eq, {1}, %zero : tensor<8xi32>
    %out = tt.histogram {0}, %m : tensor<8xi32> -> tensor<4xi32>"""
    keep = torch.tensor([0, 1, 0, 0, 0, 0, 1, 0], dtype=torch.int32)
    assert apply(text, [x, keep], torch.int32, [4]).tolist() == [1, 1, 0, 2]


CONSTANTS = [
    ("1.500000e+00", torch.float32, 1.5),
    ("0x7F800000", torch.float32, float("inf")),
    ("0xFF80", torch.bfloat16, float("-inf")),
    ("0x3C00", torch.float16, 1.0),
    ("-3", torch.int32, -3),
    ("-9223372036854775808", torch.int64, -(1 << 63)),
    ("2.500000e-01", torch.float8_e4m3fnuz, 0.25),
    ("4.480000e+02", torch.float8_e4m3fn, 448.0),
]


@pytest.mark.parametrize(("text", "dtype", "value"), CONSTANTS)
def test_constants(text: str, dtype: torch.dtype, value: float) -> None:
    out = torch.empty(4).to(dtype)
    body = f"%v = arith.constant dense<{text}> : tensor<4x{ELEM[dtype]}>"
    execute(function([dtype], body + store_lines("%v", "%p0", ELEM[dtype], [4])), [out])
    wide = widen(out) if dtype.is_floating_point else out
    assert wide.tolist() == [value] * 4


def test_constants_that_list_their_elements() -> None:
    out = torch.empty(2, 2, dtype=torch.int32)
    body = "%v = arith.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi32>"
    execute(function([torch.int32], body + store_lines("%v", "%p0", "i32", [2, 2])), [out])
    assert out.tolist() == [[1, -2], [3, 4]]


def test_program_ids_splat_and_unsplat() -> None:
    out = torch.full((2, 3, 4, 6), -1, dtype=torch.int32)
    body = """%x = tt.get_program_id x : i32
    %y = tt.get_program_id y : i32
    %z = tt.get_program_id z : i32
    %nx = tt.get_num_programs x : i32
    %ny = tt.get_num_programs y : i32
    %nz = tt.get_num_programs z : i32
    %six = arith.constant 6 : i32
    %a = arith.muli %z, %ny : i32
    %b = arith.addi %a, %y : i32
    %c = arith.muli %b, %nx : i32
    %d = arith.addi %c, %x : i32
    %row = arith.muli %d, %six : i32
    %p = tt.addptr %p0, %row : !tt.ptr<i32>, i32"""
    for k, name in enumerate(["%x", "%y", "%z", "%nx", "%ny", "%nz"]):
        body += f"""
    %k{k} = arith.constant {k} : i32
    %one{k} = tt.splat {name} : i32 -> tensor<1xi32>
    %back{k} = tt.unsplat %one{k} : tensor<1xi32>
    %q{k} = tt.addptr %p, %k{k} : !tt.ptr<i32>, i32
    tt.store %q{k}, %back{k} : !tt.ptr<i32>"""
    execute(function([torch.int32], body), [out], (4, 3, 2))
    for z in range(2):
        for y in range(3):
            for x in range(4):
                assert out[z, y, x].tolist() == [x, y, z, 4, 3, 2]


def test_poison_is_nan_in_floats() -> None:
    out = torch.zeros(4)
    body = "%v = ub.poison : tensor<4xf32>"
    execute(function([torch.float32], body + store_lines("%v", "%p0", "f32", [4])), [out])
    assert bool(out.isnan().all())


def test_unknown_operations_are_refused_by_name() -> None:
    text = function([torch.float32], "%v = tt.frobnicate %p0 : !tt.ptr<f32>")
    with pytest.raises(Unsupported, match=r"unsupported op tt\.frobnicate"):
        plan(read(text))
    text = function([torch.float32], "%v = ub.poison : tensor<4xf4E2M1FN>")
    with pytest.raises(Unsupported, match="unsupported type f4E2M1FN"):
        plan(read(text))
