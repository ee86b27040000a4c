"""Every cast against exact float formats: all 16-bit and 8-bit patterns, a dense float32 sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.knobs import Knobs
from diffuzz.numerics.formats import (
    BF16,
    BY_DTYPE,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    FP16,
    FloatFormat,
    bits_of,
    cast,
    decode,
    encode,
    from_bits,
    widen,
)

from .irtext import ELEM, apply

NARROW = [FP16, BF16, E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ]
FP8 = [E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ]


def by_name(fmt: FloatFormat) -> str:
    return fmt.name


def every(fmt: FloatFormat) -> Tensor:
    return from_bits(torch.arange(1 << fmt.bits), fmt)


def float32_sample() -> Tensor:
    """Every exponent and sign with mantissas at and beside the ties of each narrower format,
    random mantissas, and the specials."""
    tails = {0, 1, (1 << 23) - 1}
    for kept in (2, 3, 7, 10):
        half = 1 << (22 - kept)
        for high in (0, 1, 2, 3, (1 << kept) - 1):
            for tail in (half - 1, half, half + 1):
                tails.add((high << (23 - kept)) + tail)
    generator = torch.Generator().manual_seed(7)
    mantissa = torch.cat(
        [torch.tensor(sorted(tails)), torch.randint(0, 1 << 23, (60,), generator=generator)]
    )
    exponent = torch.arange(256)
    magnitude = (exponent[:, None] << 23 | mantissa).reshape(-1)
    codes = torch.cat([magnitude, magnitude | (1 << 31)])
    return (
        torch.where(codes >= 1 << 31, codes - (1 << 32), codes).to(torch.int32).view(torch.float32)
    )


def line(
    source: torch.dtype, target: torch.dtype, name: str = "tt.fp_to_fp", extra: str = ""
) -> str:
    return (
        f"%out = {name} {{0}}{extra} : tensor<{{T}}x{ELEM[source]}> to tensor<{{T}}x{ELEM[target]}>"
    )


def same_values(got: Tensor, want: Tensor) -> None:
    """Equal bit patterns, any NaN standing for any other."""
    fmt = BY_DTYPE[got.dtype]
    differ = bits_of(got) != bits_of(want)
    differ &= ~(decode(bits_of(got), fmt).isnan() & decode(bits_of(want), fmt).isnan())
    at = differ.nonzero().flatten()
    assert len(at) == 0, (len(at), got[at[:5]], want[at[:5]])


@pytest.mark.parametrize("target", NARROW, ids=by_name)
def test_float32_narrows_to_nearest_even(target: FloatFormat) -> None:
    x = float32_sample()
    overflow = "saturate" if target in FP8 else "inf"
    name = "tt.fp_to_fp" if target in FP8 else "arith.truncf"
    got = apply(line(torch.float32, target.dtype, name), [x], target.dtype)
    same_values(got, cast(x.double(), target, overflow))


@pytest.mark.parametrize("target", FP8, ids=by_name)
def test_fp8_overflow_can_be_ieee(target: FloatFormat) -> None:
    x = float32_sample()
    got = apply(
        line(torch.float32, target.dtype), [x], target.dtype, knobs=Knobs(fp8_overflow="ieee")
    )
    same_values(got, cast(x.double(), target, "inf"))


@pytest.mark.parametrize("target", FP8, ids=by_name)
@pytest.mark.parametrize("source", [FP16, BF16], ids=by_name)
def test_every_16_bit_pattern_to_fp8(source: FloatFormat, target: FloatFormat) -> None:
    x = every(source)
    got = apply(line(source.dtype, target.dtype), [x], target.dtype)
    same_values(got, cast(x.double(), target, "saturate"))


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("source", FP8, ids=by_name)
def test_every_fp8_byte_widens_exactly(source: FloatFormat, target: torch.dtype) -> None:
    x = every(source)
    got = apply(line(source.dtype, target), [x], target)
    want = decode(torch.arange(256), source)
    assert torch.equal(got.double().nan_to_num(nan=7e9), want.nan_to_num(nan=7e9))
    number = ~want.isnan()
    assert torch.equal(torch.signbit(got)[number], torch.signbit(want)[number])


@pytest.mark.parametrize("target", FP8, ids=by_name)
@pytest.mark.parametrize("source", FP8, ids=by_name)
def test_every_fp8_byte_to_every_fp8_format(source: FloatFormat, target: FloatFormat) -> None:
    if source is target:
        return
    x = every(source)
    got = apply(line(source.dtype, target.dtype), [x], target.dtype)
    same_values(got, cast(widen(x), target, "saturate"))


@pytest.mark.parametrize("source", [FP16, BF16], ids=by_name)
def test_every_16_bit_pattern_widens_exactly(source: FloatFormat) -> None:
    x = every(source)
    got = apply(line(source.dtype, torch.float32, "arith.extf"), [x], torch.float32)
    want = decode(torch.arange(1 << 16), source)
    assert torch.equal(got.double().nan_to_num(nan=7e99), want.nan_to_num(nan=7e99))


@pytest.mark.parametrize("target", NARROW, ids=by_name)
def test_float64_is_rounded_once(target: FloatFormat) -> None:
    # Just beside the ties of the target: rounding to float32 first would land on them.
    ties = decode(torch.arange(16, 100), target)
    beside = (ties + decode(torch.arange(17, 101), target)) / 2
    x = torch.cat([beside * (1 + 2.0**-40), beside * (1 - 2.0**-40), beside, -beside])
    got = apply(line(torch.float64, target.dtype, "arith.truncf"), [x], target.dtype)
    same_values(got, cast(x, target, "saturate" if target in FP8 else "inf"))


@pytest.mark.parametrize("target", [*FP8, FP16, BF16], ids=by_name)
def test_rounding_towards_zero(target: FloatFormat) -> None:
    x = float32_sample()
    x = x[x.isfinite() & (x.abs() <= target.max_finite)]
    got = apply(line(torch.float32, target.dtype, extra=", rounding = rtz"), [x], target.dtype)
    wide = decode(bits_of(got), target)
    assert bool((wide.abs() <= x.abs().double()).all())
    codes = bits_of(got) & ((1 << (target.bits - 1)) - 1)
    next_up = decode((codes + 1).clamp(max=target.max_magnitude_code), target).abs()
    below = (next_up > x.abs().double()) | (codes == target.max_magnitude_code)
    assert bool(below.all())


def test_unknown_rounding_is_refused() -> None:
    with pytest.raises(Unsupported, match="rounding rs"):
        apply(
            line(torch.float32, torch.bfloat16, extra=", rounding = rs"),
            [torch.ones(4)],
            torch.bfloat16,
        )


def test_bfloat16_ties_by_integer_arithmetic() -> None:
    x = float32_sample()
    x = x[~x.isnan()]
    got = apply(line(torch.float32, torch.bfloat16, "arith.truncf"), [x], torch.bfloat16)
    u = x.view(torch.int32).long() & 0xFFFFFFFF
    want = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16) & 0xFFFF
    assert torch.equal(bits_of(got), want)


def test_float16_against_numpy() -> None:
    x = float32_sample()
    x = x[~x.isnan()]
    got = apply(line(torch.float32, torch.float16, "arith.truncf"), [x], torch.float16)
    with np.errstate(over="ignore"):
        want = x.numpy().astype(np.float16).view(np.uint16).astype(np.int64)
    assert bits_of(got).tolist() == want.tolist()


INTS = {torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64}


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", ["arith.fptosi", "arith.fptoui"])
def test_floats_to_integers(name: str, dtype: torch.dtype) -> None:
    x = float32_sample()
    bits = INTS[dtype]
    got = apply(line(torch.float32, dtype, name), [x], dtype)
    wide = 64 if bits == 64 else 32
    low, high = (
        (-(1 << (wide - 1)), (1 << (wide - 1)) - 1) if name.endswith("si") else (0, (1 << wide) - 1)
    )
    for v, z in zip(x.double().tolist(), got.tolist(), strict=True):
        whole = 0 if v != v else high if v > high else low if v < low else int(v)
        assert (z - whole) % (1 << bits) == 0, v


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", ["arith.sitofp", "arith.uitofp"])
def test_integers_to_float32(name: str, dtype: torch.dtype) -> None:
    bits = INTS[dtype]
    edges = [0, 1, -1, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), (1 << 24) + 1, (1 << 25) + 3]
    generator = torch.Generator().manual_seed(3)
    noise = torch.randint(-(1 << 62), 1 << 62, (500,), generator=generator) * 2 + 1
    x = torch.tensor([*edges, *noise.tolist()]).to(dtype)
    got = apply(line(dtype, torch.float32, name), [x], torch.float32)
    exact = [v & ((1 << bits) - 1) if "ui" in name else v for v in x.tolist()]
    assert got.tolist() == [_nearest_float32(v) for v in exact]


def _nearest_float32(v: int) -> float:
    """The integer rounded to 24 significant bits, ties to even, in integer arithmetic."""
    sign, mag = (-1, -v) if v < 0 else (1, v)
    extra = max(mag.bit_length() - 24, 0)
    kept, rest = mag >> extra, mag & ((1 << extra) - 1)
    half = (1 << extra) >> 1
    if extra and (rest > half or (rest == half and kept & 1)):
        kept += 1
    return float(sign * (kept << extra))


def test_bitcasts_keep_the_bits() -> None:
    x = float32_sample()
    got = apply(line(torch.float32, torch.int32, "tt.bitcast"), [x], torch.int32)
    assert torch.equal(got, x.view(torch.int32))
    back = apply(line(torch.int32, torch.float32, "arith.bitcast"), [got], torch.float32)
    assert torch.equal(back.view(torch.int32), got)
    codes = torch.arange(256, dtype=torch.uint8)
    eight = apply(
        line(torch.float8_e4m3fn, torch.int8, "tt.bitcast"),
        [codes.view(torch.float8_e4m3fn)],
        torch.int8,
    )
    assert torch.equal(eight.view(torch.uint8), codes)


def test_nan_and_infinity_bytes_are_those_measured_on_hardware() -> None:
    x = torch.tensor([float("inf"), -float("inf"), 1e9, float("nan")])
    e4m3 = apply(line(torch.float32, torch.float8_e4m3fn), [x], torch.float8_e4m3fn)
    e5m2 = apply(line(torch.float32, torch.float8_e5m2), [x], torch.float8_e5m2)
    assert e4m3.view(torch.uint8).tolist()[:3] == [0x7E, 0xFE, 0x7E]
    assert e5m2.view(torch.uint8).tolist()[:3] == [0x7B, 0xFB, 0x7B]
    assert bool(e4m3.float().isnan()[3])
    assert bool(e5m2.float().isnan()[3])
    assert encode(torch.tensor([float("nan")]).double(), E4M3FNUZ).tolist() == [0x80]
