"""Reductions, scans and matrix products."""

from __future__ import annotations

import pytest
import torch

from diffuzz.numerics.formats import E4M3FNUZ, cast, widen

from .irtext import ELEM, apply


def values(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-100, 100, shape, generator=generator).to(dtype)


def region(op: str, combiner: str, elem: str, axis: int, result: str, extra: str = "") -> str:
    return f"""%out = "tt.{op}"({{0}}) <{{{{axis = {axis} : i32{extra}}}}}> ({{{{
    ^bb0(%a: {elem} loc(unknown), %b: {elem} loc(unknown)):
      %c = {combiner} %a, %b : {elem}
      tt.{op}.return %c : {elem}
    }}}}) : (tensor<{{T}}x{elem}>) -> {result}"""


REDUCE = {
    "arith.addi": (torch.int32, lambda x, d: x.sum(d, dtype=torch.int64).int()),
    "arith.maxsi": (torch.int32, lambda x, d: x.amax(d)),
    "arith.minsi": (torch.int32, lambda x, d: x.amin(d)),
    "arith.xori": (torch.int32, None),
    "arith.maxnumf": (torch.float32, lambda x, d: x.amax(d)),
    "arith.minnumf": (torch.float32, lambda x, d: x.amin(d)),
    "arith.maximumf": (torch.bfloat16, lambda x, d: x.amax(d)),
    "arith.minimumf": (torch.float16, lambda x, d: x.amin(d)),
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("combiner", REDUCE)
def test_reductions_that_do_not_depend_on_order(combiner: str, axis: int) -> None:
    dtype, want = REDUCE[combiner]
    x = values(dtype, 8, 16)
    left = [16, 8][axis]
    text = region("reduce", combiner, ELEM[dtype], axis, f"tensor<{left}x{ELEM[dtype]}>")
    got = apply(text, [x], dtype, [left])
    if want is None:
        slices = x.unbind(axis)
        total = slices[0]
        for s in slices[1:]:
            total = total ^ s
        assert torch.equal(got, total)
    else:
        assert torch.equal(got, want(x, axis))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_sums_stay_within_the_bound_of_any_order(dtype: torch.dtype) -> None:
    x = values(dtype, 16, 64)
    text = region("reduce", "arith.addf", ELEM[dtype], 1, f"tensor<16x{ELEM[dtype]}>")
    got = apply(text, [x], dtype, [16])
    # Higham, Accuracy and Stability of Numerical Algorithms, 4.2: (n - 1) u sum |x|.
    unit = torch.finfo(dtype).eps / 2
    bound = 64 * unit * x.double().abs().sum(1) * 1.1
    assert bool(((got.double() - x.double().sum(1)).abs() <= bound).all())


def test_integer_sums_wrap() -> None:
    x = torch.full((4, 8), (1 << 31) - 1, dtype=torch.int32)
    text = region("reduce", "arith.addi", "i32", 1, "tensor<4xi32>")
    assert apply(text, [x], torch.int32, [4]).tolist() == [-8] * 4


def test_maximum_ignores_or_keeps_nan_as_the_combiner_says() -> None:
    x = values(torch.float32, 4, 8)
    x[0, 3] = float("nan")
    x[1] = float("nan")
    ignoring = apply(
        region("reduce", "arith.maxnumf", "f32", 1, "tensor<4xf32>"), [x], torch.float32, [4]
    )
    assert ignoring[0] == x[0][~x[0].isnan()].max()
    assert bool(ignoring[1].isnan())
    keeping = apply(
        region("reduce", "arith.maximumf", "f32", 1, "tensor<4xf32>"), [x], torch.float32, [4]
    )
    assert keeping.isnan().tolist() == [True, True, False, False]


def test_any_and_all() -> None:
    x = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]], dtype=torch.int8)
    for combiner, want in (
        ("arith.ori", [False, True, True]),
        ("arith.andi", [False, False, True]),
    ):
        text = "%m = arith.trunci {0} : tensor<3x4xi8> to tensor<3x4xi1>\n" + region(
            "reduce", combiner, "i1", 1, "tensor<3xi1>"
        ).replace("({0})", "(%m)")
        assert apply(text, [x], torch.bool, [3]).tolist() == want


ARGMAX = """%r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
    %e = tt.expand_dims %r {{axis = 0 : i32}} : tensor<8xi32> -> tensor<1x8xi32>
    %i = tt.broadcast %e : tensor<1x8xi32> -> tensor<4x8xi32>
    %o:2 = "tt.reduce"({0}, %i) <{{axis = 1 : i32}}> ({{
    ^bb0(%a: f32 loc(unknown), %ai: i32 loc(unknown), %b: f32 loc(unknown), %bi: i32 loc(unknown)):
      %tie = arith.cmpf oeq, %a, %b : f32
      %first = arith.cmpi slt, %ai, %bi : i32
      %keep = arith.andi %tie, %first : i1
      %more = arith.cmpf ogt, %a, %b : f32
      %take = arith.ori %more, %keep : i1
      %v = arith.select %take, %a, %b : f32
      %w = arith.select %take, %ai, %bi : i32
      tt.reduce.return %v, %w : f32, i32
    }}) : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xi32>)
    %out = arith.addi %o#1, %o#1 : tensor<4xi32>"""


def test_argmax_breaks_ties_to_the_left() -> None:
    x = values(torch.float32, 4, 8)
    x[0, 2] = x[0, 5] = 9.0
    x[1] = 1.0
    got = apply(ARGMAX, [x], torch.int32, [4])
    want = [2, 0, int(x[2].argmax()), int(x[3].argmax())]
    assert got.tolist() == [2 * k for k in want]


@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize("combiner", ["arith.addi", "arith.maxsi", "arith.muli"])
def test_integer_scans(combiner: str, reverse: str) -> None:
    x = values(torch.int32, 3, 16)
    text = region("scan", combiner, "i32", 1, "tensor<3x16xi32>", f", reverse = {reverse}")
    got = apply(text, [x], torch.int32)
    want = x.flip(1) if reverse == "true" else x
    step = {"arith.addi": torch.cumsum, "arith.muli": torch.cumprod}.get(combiner)
    want = step(want.long(), 1).int() if step else want.cummax(1).values
    assert torch.equal(got, want.flip(1) if reverse == "true" else want)


def test_float_scans_stay_within_the_bound() -> None:
    x = values(torch.float32, 3, 64)
    text = region("scan", "arith.addf", "f32", 1, "tensor<3x64xf32>", ", reverse = false")
    got = apply(text, [x], torch.float32)
    bound = 64 * 2.0**-24 * x.double().abs().cumsum(1)
    assert bool(((got.double() - x.double().cumsum(1)).abs() <= bound).all())


def dot(elem: str, acc: str, precision: str = "") -> str:
    mode = f", inputPrecision = {precision}" if precision else ""
    return (
        f"%out = tt.dot {{0}}, {{1}}, {{2}}{mode} : tensor<8x32x{elem}> * tensor<32x16x{elem}>"
        f" -> tensor<8x16x{acc}>"
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_dot_accumulates_in_float32(dtype: torch.dtype) -> None:
    a, b, c = values(dtype, 8, 32), values(dtype, 32, 16, seed=1), values(torch.float32, 8, 16)
    got = apply(dot(ELEM[dtype], "f32", "ieee"), [a, b, c], torch.float32, [8, 16])
    want = a.double() @ b.double() + c.double()
    size = a.double().abs() @ b.double().abs() + c.double().abs()
    assert bool(((got.double() - want).abs() <= 34 * 2.0**-24 * size).all())


def test_dot_in_tf32_cuts_the_operands() -> None:
    a, b = values(torch.float32, 8, 32), values(torch.float32, 32, 16, seed=1)
    c = torch.zeros(8, 16)
    got = apply(dot("f32", "f32", "tf32"), [a, b, c], torch.float32, [8, 16])
    cut_a, cut_b = ((t.view(torch.int32) & ~0x1FFF).view(torch.float32).double() for t in (a, b))
    bound = 34 * 2.0**-24 * (cut_a.abs() @ cut_b.abs())
    assert bool(((got.double() - cut_a @ cut_b).abs() <= bound).all())
    assert not bool(((got.double() - a.double() @ b.double()).abs() <= bound).all())


def test_dot_of_fp8_and_of_integers() -> None:
    a, b = (cast(values(torch.float32, *s).double(), E4M3FNUZ) for s in ((8, 32), (32, 16)))
    c = torch.zeros(8, 16)
    got = apply(dot("f8E4M3FNUZ", "f32"), [a, b, c], torch.float32, [8, 16])
    want = widen(a) @ widen(b)
    assert bool(((got.double() - want).abs() <= 1e-5).all())
    i, j = values(torch.int8, 8, 32), values(torch.int8, 32, 16, seed=1)
    k = values(torch.int32, 8, 16)
    exact = i.long() @ j.long() + k.long()
    got = apply(dot("i8", "i32"), [i, j, k], torch.int32, [8, 16])
    assert torch.equal(got.long(), exact)
