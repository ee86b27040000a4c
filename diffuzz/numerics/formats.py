"""Floating-point formats narrower than float64, exactly.

Every value of every format here is a float64 value, so float64 tensors carry them without loss:
``decode`` turns bit patterns into float64, ``round_to`` rounds float64 to the nearest value of a
format (ties to even), ``encode`` gives its bit pattern. All are exact for all inputs.

Definitions: IEEE 754-2019 (fp32, fp16), bfloat16 (the upper half of fp32), OCP 8-bit Floating
Point Specification 1.0 (e4m3fn, e5m2), and for the FNUZ flavours the CDNA3 ISA guide: bias one
larger, no infinities, no negative zero, and 0x80 the only NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

Overflow = Literal["inf", "saturate", "nan"]


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format of ``1 + exponent_bits + mantissa_bits`` bits.

    ``flavour`` says what the extreme patterns mean: ``ieee`` (the top exponent holds infinities
    and NaNs), ``fn`` (finite: only the all-ones pattern is NaN) or ``fnuz`` (finite, unsigned
    zero: only the sign bit alone is NaN).
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    flavour: Literal["ieee", "fn", "fnuz"]
    dtype: torch.dtype

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value, and of the subnormals' grid."""
        return 1 - self.bias

    @property
    def max_magnitude_code(self) -> int:
        """The magnitude pattern (without sign) of the largest finite value."""
        top = (1 << (self.bits - 1)) - 1
        if self.flavour == "fn":
            return top - 1
        if self.flavour == "fnuz":
            return top
        return (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1

    @property
    def max_finite(self) -> float:
        code = self.max_magnitude_code
        exponent = (code >> self.mantissa_bits) - self.bias
        fraction = code & ((1 << self.mantissa_bits) - 1)
        return float(2.0**exponent * (1 + fraction / (1 << self.mantissa_bits)))

    @property
    def smallest(self) -> float:
        """The smallest positive (subnormal) value."""
        return float(2.0 ** (self.min_exponent - self.mantissa_bits))

    @property
    def nan_code(self) -> int:
        if self.flavour == "fnuz":
            return 1 << (self.bits - 1)
        if self.flavour == "fn":
            return (1 << (self.bits - 1)) - 1
        return (((1 << self.exponent_bits) - 1) << self.mantissa_bits) | (
            1 << (self.mantissa_bits - 1)
        )


FP32 = FloatFormat("fp32", 8, 23, 127, "ieee", torch.float32)
BF16 = FloatFormat("bf16", 8, 7, 127, "ieee", torch.bfloat16)
FP16 = FloatFormat("fp16", 5, 10, 15, "ieee", torch.float16)
E4M3FN = FloatFormat("e4m3fn", 4, 3, 7, "fn", torch.float8_e4m3fn)
E4M3FNUZ = FloatFormat("e4m3fnuz", 4, 3, 8, "fnuz", torch.float8_e4m3fnuz)
E5M2 = FloatFormat("e5m2", 5, 2, 15, "ieee", torch.float8_e5m2)
E5M2FNUZ = FloatFormat("e5m2fnuz", 5, 2, 16, "fnuz", torch.float8_e5m2fnuz)

FORMATS: dict[str, FloatFormat] = {
    f.name: f for f in (FP32, BF16, FP16, E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ)
}
BY_DTYPE: dict[torch.dtype, FloatFormat] = {f.dtype: f for f in FORMATS.values()}


def bits_of(values: Tensor) -> Tensor:
    """Bit patterns of a float tensor as non-negative int64, same shape."""
    width = values.element_size()
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[width]
    return values.contiguous().view(raw).to(torch.int64) & ((1 << (8 * width)) - 1)


def from_bits(codes: Tensor, fmt: FloatFormat) -> Tensor:
    """Tensor of ``fmt.dtype`` holding the given bit patterns (any integer dtype)."""
    width = fmt.bits
    signed = codes.to(torch.int64)
    if width == 8:
        return signed.to(torch.uint8).view(fmt.dtype)
    signed = torch.where(signed >= 1 << (width - 1), signed - (1 << width), signed)
    return signed.to(torch.int16 if width == 16 else torch.int32).view(fmt.dtype)


def decode(codes: Tensor, fmt: FloatFormat) -> Tensor:
    """float64 values of bit patterns ``codes`` (any integer dtype), exactly."""
    if fmt.bits == 8:
        return _table(fmt).to(codes.device)[codes.to(torch.int64)]
    if fmt.bits == 16:
        return from_bits(codes, fmt).to(torch.float64)
    return _decode(codes, fmt)


@cache
def _table(fmt: FloatFormat) -> Tensor:
    """The values of all 256 patterns of an 8-bit format."""
    return _decode(torch.arange(256), fmt)


def _decode(codes: Tensor, fmt: FloatFormat) -> Tensor:
    code = codes.to(torch.int64)
    sign_bit = 1 << (fmt.bits - 1)
    magnitude = code & (sign_bit - 1)
    exponent = magnitude >> fmt.mantissa_bits
    fraction = (magnitude & ((1 << fmt.mantissa_bits) - 1)).to(torch.float64)
    subnormal = exponent == 0
    significand = torch.where(subnormal, fraction, fraction + (1 << fmt.mantissa_bits))
    power = torch.where(subnormal, torch.ones_like(exponent), exponent) - fmt.bias
    value = torch.ldexp(significand, (power - fmt.mantissa_bits).to(torch.float64))
    value = torch.where((code & sign_bit) != 0, -value, value)
    special = magnitude > fmt.max_magnitude_code
    if fmt.flavour == "ieee":
        infinite = magnitude == fmt.max_magnitude_code + 1
        infinity = torch.where((code & sign_bit) != 0, -torch.inf, torch.inf).to(torch.float64)
        value = torch.where(special, torch.nan, value)
        return torch.where(infinite, infinity, value)
    if fmt.flavour == "fnuz":
        special = code == sign_bit
    return torch.where(special, torch.nan, value)


def widen(values: Tensor) -> Tensor:
    """float64 of a float tensor, exactly, for every format known here."""
    if values.dtype == torch.float64:
        return values
    fmt = BY_DTYPE.get(values.dtype)
    if fmt is None or fmt.bits >= 16:
        return values.to(torch.float64)
    return decode(values.contiguous().view(torch.uint8), fmt)


def ulp(values: Tensor, fmt: FloatFormat) -> Tensor:
    """Spacing of ``fmt`` at each float64 value (the gap above its magnitude's binade floor).

    Subnormals use the subnormal spacing; magnitudes beyond the largest finite value use its
    spacing, so that an error against an overflowing truth stays a finite count.
    """
    magnitude = values.abs().nan_to_num(nan=0.0, posinf=fmt.max_finite)
    magnitude = magnitude.clamp(max=fmt.max_finite)
    exponent = torch.frexp(magnitude).exponent - 1
    exponent = exponent.clamp(min=fmt.min_exponent)
    exponent = torch.where(magnitude == 0, fmt.min_exponent, exponent)
    return torch.ldexp(torch.ones_like(magnitude), (exponent - fmt.mantissa_bits).to(torch.float64))


def round_to(values: Tensor, fmt: FloatFormat, overflow: Overflow = "inf") -> Tensor:
    """Round float64 ``values`` to the nearest value of ``fmt``, ties to even; stays float64.

    ``overflow`` is what a rounded magnitude above the largest finite value becomes. ``inf`` means
    NaN in formats without infinities. Infinite inputs saturate too under ``saturate``; NaN stays.
    """
    spacing = ulp(values, fmt)
    # float64 division by a power of two is exact, and torch.round is ties-to-even.
    rounded = torch.where(values.isfinite(), torch.round(values / spacing) * spacing, values)
    over = rounded.abs() > fmt.max_finite
    if overflow == "saturate":
        limit = torch.full_like(rounded, fmt.max_finite)
    elif overflow == "inf" and fmt.flavour == "ieee":
        limit = torch.full_like(rounded, torch.inf)
    else:
        limit = torch.full_like(rounded, torch.nan)
    rounded = torch.where(over, torch.copysign(limit, values), rounded)
    if fmt.flavour == "fnuz":
        rounded = torch.where(rounded == 0, torch.zeros_like(rounded), rounded)
    return rounded


def encode(values: Tensor, fmt: FloatFormat, overflow: Overflow = "inf") -> Tensor:
    """Bit patterns (int64) of float64 ``values`` rounded to ``fmt`` as :func:`round_to` does."""
    rounded = round_to(values, fmt, overflow)
    magnitude = rounded.abs()
    finite = magnitude.isfinite()
    safe = torch.where(finite, magnitude, torch.zeros_like(magnitude))
    exponent = (torch.frexp(safe).exponent - 1).to(torch.int64)
    exponent = torch.where(safe == 0, fmt.min_exponent, exponent.clamp(min=fmt.min_exponent))
    significand = torch.ldexp(safe, (fmt.mantissa_bits - exponent).to(torch.float64))
    whole = significand.to(torch.int64)
    # A significand below 2**mantissa_bits is subnormal (exponent field 0); above, its leading one
    # is implied and adds 1 to the exponent field when the two are added.
    field = torch.where(
        whole >= (1 << fmt.mantissa_bits), (exponent + fmt.bias - 1) << fmt.mantissa_bits, 0
    )
    code = field + whole
    code = torch.where(magnitude.isinf(), fmt.max_magnitude_code + 1, code)
    negative = torch.signbit(rounded)
    if fmt.flavour == "fnuz":
        negative = negative & (rounded != 0)
    code = torch.where(negative, code | (1 << (fmt.bits - 1)), code)
    return torch.where(rounded.isnan(), fmt.nan_code, code)


def cast(values: Tensor, fmt: FloatFormat, overflow: Overflow = "inf") -> Tensor:
    """float64 ``values`` rounded to ``fmt`` and stored as a tensor of ``fmt.dtype``."""
    return from_bits(encode(values, fmt, overflow), fmt)
