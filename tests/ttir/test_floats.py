"""Floating-point operations: rounded once, NaN and zero handled as IEEE 754 says."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.numerics.formats import BY_DTYPE, cast

from .irtext import ELEM, apply

NAN, INF = float("nan"), float("inf")
EDGES = [0.0, -0.0, 1.0, -1.5, 3.25, 1e-30, -1e30, 65504.0, INF, -INF, NAN, 1e-45, 7.0, -2.0]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


def pairs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    grid = torch.tensor(EDGES, dtype=torch.float64)
    a, b = (t.reshape(-1) for t in torch.meshgrid(grid, grid, indexing="ij"))
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(2, 3000, generator=generator, dtype=torch.float64)
    noise *= 10.0 ** torch.randint(-4, 5, (2, 3000), generator=generator).double()
    return torch.cat([a, noise[0]]).to(dtype), torch.cat([b, noise[1]]).to(dtype)


def line(name: str, dtype: torch.dtype, operands: int) -> str:
    args = ", ".join(f"{{{k}}}" for k in range(operands))
    return f"%out = {name} {args} : tensor<{{T}}x{ELEM[dtype]}>"


def same(got: Tensor, want: Tensor) -> None:
    equal = (got == want) & (torch.signbit(got) == torch.signbit(want))
    assert bool((equal | (got.isnan() & want.isnan())).all())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["arith.addf", "arith.subf", "arith.mulf", "arith.divf"])
def test_arithmetic_is_rounded_once(name: str, dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    got = apply(line(name, dtype, 2), [a, b], dtype)
    exact = {
        "arith.addf": torch.add,
        "arith.subf": torch.sub,
        "arith.mulf": torch.mul,
        "arith.divf": torch.div,
    }[name](a.double(), b.double())
    # float64 has more than twice the bits: rounding its result again changes nothing, except for
    # sums of numbers far apart, where it is exact or the smaller one cannot matter.
    want = cast(exact, BY_DTYPE[dtype])
    same(got.double(), want.double())


@pytest.mark.parametrize("name", ["tt.precise_divf"])
def test_precise_division(name: str) -> None:
    a, b = pairs(torch.float32)
    got = apply(line(name, torch.float32, 2), [a, b], torch.float32)
    same(got, a / b)


def test_remainder_has_the_sign_of_the_dividend() -> None:
    a = torch.tensor([5.5, -5.5, 5.5, -5.5])
    b = torch.tensor([2.0, 2.0, -2.0, -2.0])
    got = apply(line("arith.remf", torch.float32, 2), [a, b], torch.float32)
    assert got.tolist() == [1.5, -1.5, 1.5, -1.5]


def test_minimum_and_maximum_with_and_without_nan() -> None:
    a, b = torch.tensor([1.0, NAN, 2.0, NAN]), torch.tensor([3.0, 4.0, NAN, NAN])
    for name, want in {
        "arith.maxnumf": [3.0, 4.0, 2.0, NAN],
        "arith.minnumf": [1.0, 4.0, 2.0, NAN],
        "arith.maximumf": [3.0, NAN, NAN, NAN],
        "arith.minimumf": [1.0, NAN, NAN, NAN],
    }.items():
        same(apply(line(name, torch.float32, 2), [a, b], torch.float32), torch.tensor(want))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fused_multiply_add_is_rounded_once(dtype: torch.dtype) -> None:
    a, b = pairs(dtype)
    c = b.roll(17)
    finite = a.isfinite() & b.isfinite() & c.isfinite()
    a, b, c = a[finite], b[finite], c[finite]
    got = apply(line("math.fma", dtype, 3), [a, b, c], dtype)
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), got.double().tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if math.isinf(r) or exact == 0:
            continue
        fmt = BY_DTYPE[dtype]
        exponent = max(math.frexp(r)[1] - 1, fmt.min_exponent) if r else fmt.min_exponent
        half = Fraction(2) ** (exponent - fmt.mantissa_bits) / 2
        assert abs(Fraction(r) - exact) <= half, (x, y, z, r)


def test_fused_multiply_add_differs_from_two_roundings() -> None:
    x = torch.tensor([1 + 2.0**-12])
    got = apply(line("math.fma", torch.float32, 3), [x, x, -(x * x)], torch.float32)
    assert got.item() == 2.0**-24


UNARY = {
    "arith.negf": torch.neg,
    "math.absf": torch.abs,
    "math.floor": torch.floor,
    "math.ceil": torch.ceil,
    "math.trunc": torch.trunc,
    "math.roundeven": torch.round,
    "math.sqrt": torch.sqrt,
    "tt.precise_sqrt": torch.sqrt,
}
TRANSCENDENTAL = {
    "math.exp": torch.exp,
    "math.exp2": torch.exp2,
    "math.log": torch.log,
    "math.log2": torch.log2,
    "math.log1p": torch.log1p,
    "math.expm1": torch.expm1,
    "math.rsqrt": torch.rsqrt,
    "math.sin": torch.sin,
    "math.cos": torch.cos,
    "math.erf": torch.erf,
    "math.tanh": torch.tanh,
}


@pytest.mark.parametrize("name", UNARY)
def test_exact_functions_of_one_argument(name: str) -> None:
    a, _ = pairs(torch.float32)
    got = apply(line(name, torch.float32, 1), [a], torch.float32)
    same(got, UNARY[name](a.double()).float())


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_other_functions_are_rounded_from_float64(name: str) -> None:
    a, _ = pairs(torch.float32)
    got = apply(line(name, torch.float32, 1), [a], torch.float32)
    same(got, TRANSCENDENTAL[name](a.double()).float())


def test_round_takes_halves_away_from_zero() -> None:
    x = torch.tensor([0.5, 1.5, -0.5, -2.5, 2.4, 0.49999997, 8388609.0, -INF])
    got = apply(line("math.round", torch.float32, 1), [x], torch.float32)
    assert got.tolist() == [1.0, 2.0, -1.0, -3.0, 2.0, 0.0, 8388609.0, -INF]


def test_power() -> None:
    a, b = torch.tensor([2.0, 3.0, -2.0, 0.0]), torch.tensor([0.5, 2.0, 3.0, 0.0])
    got = apply(line("math.powf", torch.float32, 2), [a, b], torch.float32)
    assert got.tolist() == [float(torch.tensor(2.0).sqrt()), 9.0, -8.0, 1.0]


PREDICATES = ["eq", "gt", "ge", "lt", "le", "ne"]


@pytest.mark.parametrize("order", ["o", "u"])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_comparisons_ordered_and_unordered(order: str, predicate: str) -> None:
    a, b = pairs(torch.float32)
    text = f"%out = arith.cmpf {order}{predicate}, {{0}}, {{1}} : tensor<{{T}}xf32>"
    got = apply(text, [a, b], torch.bool)
    plain = getattr(torch, predicate)(a, b)
    missing = a.isnan() | b.isnan()
    want = plain & ~missing if order == "o" else plain | missing
    assert torch.equal(got, want)


def test_comparisons_for_being_ordered() -> None:
    a, b = pairs(torch.float32)
    missing = a.isnan() | b.isnan()
    for predicate, want in {
        "ord": ~missing,
        "uno": missing,
        "true": torch.ones_like(missing),
        "false": torch.zeros_like(missing),
    }.items():
        text = f"%out = arith.cmpf {predicate}, {{0}}, {{1}} : tensor<{{T}}xf32>"
        assert torch.equal(apply(text, [a, b], torch.bool), want)


def test_select_and_clamp() -> None:
    a, b = torch.tensor([1.0, -2.0, NAN]), torch.tensor([5.0, 6.0, 7.0])
    text = """%c = arith.cmpf ogt, {0}, {1} : tensor<{T}xf32>
    %out = arith.select %c, {0}, {1} : tensor<{T}xi1>, tensor<{T}xf32>"""
    assert apply(text, [a, b], torch.float32).tolist() == [5.0, 6.0, 7.0]
    low, high = torch.full((3,), -1.0), torch.full((3,), 0.5)
    text = "%out = tt.clampf {0}, {1}, {2}, propagateNan = none : tensor<{T}xf32>"
    assert apply(text, [a, low, high], torch.float32).tolist() == [0.5, -1.0, -1.0]
    text = text.replace("none", "all")
    same(apply(text, [a, low, high], torch.float32), torch.tensor([0.5, -1.0, NAN]))


def test_device_library_functions() -> None:
    x = torch.tensor([0.25, 1.0, 2.5])
    for symbol, function in {
        "__ocml_tanh_f32": torch.tanh,
        "__nv_tanhf": torch.tanh,
        "__nv_rsqrtf": torch.rsqrt,
        "__ocml_exp2_f32": torch.exp2,
        "__nv_floorf": torch.floor,
        "__nv_log1pf": torch.log1p,
    }.items():
        text = (
            f'%out = tt.extern_elementwise {{0}} {{{{libname = "", libpath = "", pure = true,'
            f' symbol = "{symbol}"}}}} : (tensor<{{T}}xf32>) -> tensor<{{T}}xf32>'
        )
        same(apply(text, [x], torch.float32), function(x.double()).float())


def test_an_unknown_device_function_is_refused_by_name() -> None:
    text = (
        '%out = tt.extern_elementwise {0} {{symbol = "__nv_y0f"}}'
        " : (tensor<{T}xf32>) -> tensor<{T}xf32>"
    )
    with pytest.raises(Unsupported, match="__nv_y0f"):
        apply(text, [torch.ones(4)], torch.float32)
