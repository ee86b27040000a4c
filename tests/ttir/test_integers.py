"""Integer operations against Python's own integers, at every width."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from diffuzz.executors.ttir.values import wrapped

from .irtext import apply

WIDTHS = {torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64}


def samples(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Edge values in all pairs' worth of positions, then random ones."""
    bits = WIDTHS[dtype]
    edges = [0, 1, -1, 2, 3, -3, 7, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), 10, -10]
    pairs = [(a, b) for a in edges for b in edges]
    chosen = [p[seed] for p in pairs]
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(-(1 << 62), 1 << 62, (135,), generator=generator) * 2 + seed
    values = [wrapped(int(v), bits) for v in [*chosen, *noise.tolist()]]
    return torch.tensor(values, dtype=dtype)


def as_unsigned(v: int, bits: int) -> int:
    return v & ((1 << bits) - 1)


def trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def safe(b: int) -> bool:
    return b != 0


Rule = Callable[[int, int, int], int | None]
RULES: dict[str, Rule] = {
    "arith.addi": lambda a, b, n: a + b,
    "arith.subi": lambda a, b, n: a - b,
    "arith.muli": lambda a, b, n: a * b,
    "arith.andi": lambda a, b, n: a & b,
    "arith.ori": lambda a, b, n: a | b,
    "arith.xori": lambda a, b, n: a ^ b,
    "arith.minsi": lambda a, b, n: min(a, b),
    "arith.maxsi": lambda a, b, n: max(a, b),
    "arith.minui": lambda a, b, n: min(a, b, key=lambda v: as_unsigned(v, n)),
    "arith.maxui": lambda a, b, n: max(a, b, key=lambda v: as_unsigned(v, n)),
    "arith.divsi": lambda a, b, n: trunc_div(a, b) if b else -1,
    "arith.remsi": lambda a, b, n: a - b * trunc_div(a, b) if b else a,
    "arith.floordivsi": lambda a, b, n: a // b if b else None,
    "arith.ceildivsi": lambda a, b, n: -(-a // b) if b and a != -(1 << (n - 1)) else None,
    "arith.divui": lambda a, b, n: as_unsigned(a, n) // as_unsigned(b, n) if b else -1,
    "arith.remui": lambda a, b, n: as_unsigned(a, n) % as_unsigned(b, n) if b else a,
    "tt.mulhiui": lambda a, b, n: (as_unsigned(a, n) * as_unsigned(b, n)) >> n,
}


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize("name", RULES)
def test_two_operand_arithmetic(name: str, dtype: torch.dtype) -> None:
    bits = WIDTHS[dtype]
    a, b = samples(dtype, 0), samples(dtype, 1)
    got = apply(f"%out = {name} {{0}}, {{1}} : tensor<{{T}}xi{bits}>", [a, b], dtype)
    for x, y, z in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        want = RULES[name](x, y, bits)
        if want is not None:
            assert z == wrapped(want, bits), (x, y)


SHIFTS: dict[str, Rule] = {
    "arith.shli": lambda a, b, n: a << b,
    "arith.shrsi": lambda a, b, n: a >> b,
    "arith.shrui": lambda a, b, n: as_unsigned(a, n) >> b,
}


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_by_less_than_the_width(name: str, dtype: torch.dtype) -> None:
    bits = WIDTHS[dtype]
    a = samples(dtype, 0)
    b = (torch.arange(len(a)) % bits).to(dtype)
    got = apply(f"%out = {name} {{0}}, {{1}} : tensor<{{T}}xi{bits}>", [a, b], dtype)
    for x, y, z in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        assert z == wrapped(SHIFTS[name](x, y, bits) or 0, bits), (x, y)


@pytest.mark.parametrize(("name", "left"), [("arith.shli", 0), ("arith.shrui", 0)])
def test_shifts_by_the_width_or_more_give_nothing(name: str, left: int) -> None:
    a = torch.tensor([5, -5, 123456789], dtype=torch.int32)
    b = torch.tensor([32, 33, 1000], dtype=torch.int32)
    got = apply(f"%out = {name} {{0}}, {{1}} : tensor<{{T}}xi32>", [a, b], torch.int32)
    assert got.tolist() == [left] * 3


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_absolute_value_wraps_at_the_least(dtype: torch.dtype) -> None:
    bits, a = WIDTHS[dtype], samples(dtype, 0)
    got = apply(f"%out = math.absi {{0}} : tensor<{{T}}xi{bits}>", [a], dtype)
    assert got.tolist() == [wrapped(abs(x), bits) for x in a.tolist()]


COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize(
    "predicate", ["eq", "ne", *(s + p for s in "su" for p in ("lt", "le", "gt", "ge"))]
)
def test_comparisons(predicate: str, dtype: torch.dtype) -> None:
    bits = WIDTHS[dtype]
    a, b = samples(dtype, 0), samples(dtype, 1)
    line = f"%out = arith.cmpi {predicate}, {{0}}, {{1}} : tensor<{{T}}xi{bits}>"
    got = apply(line, [a, b], torch.bool)
    sign = COMPARE[predicate[-2:]]
    for x, y, z in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        if predicate[0] == "u":
            x, y = as_unsigned(x, bits), as_unsigned(y, bits)
        assert z == eval(f"{x} {sign} {y}"), (x, y)


def test_one_bit_integers_count_modulo_two() -> None:
    a = torch.tensor([0, 0, 1, 1], dtype=torch.int8)
    b = torch.tensor([0, 1, 0, 1], dtype=torch.int8)
    bits = """%x = arith.trunci {{0}} : tensor<{{T}}xi8> to tensor<{{T}}xi1>
    %y = arith.trunci {{1}} : tensor<{{T}}xi8> to tensor<{{T}}xi1>
    %out = {line} : tensor<{{T}}xi1>"""
    for line, want in {
        "arith.addi %x, %y": [0, 1, 1, 0],
        "arith.subi %x, %y": [0, 1, 1, 0],
        "arith.muli %x, %y": [0, 0, 0, 1],
        "arith.andi %x, %y": [0, 0, 0, 1],
        "arith.ori %x, %y": [0, 1, 1, 1],
        "arith.xori %x, %y": [0, 1, 1, 0],
        "arith.cmpi slt, %x, %y": [0, 0, 1, 0],
        "arith.cmpi ult, %x, %y": [0, 1, 0, 0],
    }.items():
        assert apply(bits.format(line=line), [a, b], torch.bool).int().tolist() == want, line


def test_widening_and_narrowing() -> None:
    x = torch.tensor([0, 1, -1, 127, -128], dtype=torch.int8)
    signed = apply("%out = arith.extsi {0} : tensor<{T}xi8> to tensor<{T}xi64>", [x], torch.int64)
    assert signed.tolist() == x.tolist()
    plain = apply("%out = arith.extui {0} : tensor<{T}xi8> to tensor<{T}xi64>", [x], torch.int64)
    assert plain.tolist() == [as_unsigned(v, 8) for v in x.tolist()]
    wide = torch.tensor([0, 255, 256, -129, 1 << 40], dtype=torch.int64)
    cut = apply("%out = arith.trunci {0} : tensor<{T}xi64> to tensor<{T}xi8>", [wide], torch.int8)
    assert cut.tolist() == [wrapped(v, 8) for v in wide.tolist()]
    index = apply(
        "%out = arith.index_cast {0} : tensor<{T}xi8> to tensor<{T}xi64>", [x], torch.int64
    )
    assert index.tolist() == x.tolist()
    true = """%b = arith.trunci {0} : tensor<{T}xi8> to tensor<{T}xi1>
    %out = arith.extsi %b : tensor<{T}xi1> to tensor<{T}xi32>"""
    assert apply(true, [x], torch.int32).tolist() == [0, -1, -1, -1, 0]
