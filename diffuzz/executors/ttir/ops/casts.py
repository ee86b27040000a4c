"""Conversions between types, exactly.

Narrowing rounds to nearest, ties to even, unless the IR says towards zero. Overflow to fp8
follows the knob ``fp8_overflow``. Conversions to integers truncate and saturate at 32 (or 64)
bits with NaN giving 0, as both vendors' hardware does, then wrap to narrower types.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.frames import Frame, Value
from diffuzz.executors.ttir.ir import Op
from diffuzz.executors.ttir.ops.integers import unsigned
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.sums import Sum
from diffuzz.executors.ttir.values import FORMAT, FP8, HOLD, RAW
from diffuzz.numerics.formats import FloatFormat, decode

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run

_INF = float("inf")


@lru_cache(maxsize=16)
def _table(elem: str, dtype: torch.dtype) -> Tensor:
    return decode(torch.arange(256), FORMAT[elem]).to(dtype)


def fp8_to(codes: Tensor, elem: str, dtype: torch.dtype) -> Tensor:
    """Values of fp8 bit patterns in a wider float type, exactly."""
    flat = codes.reshape(-1).to(torch.int32)
    return _table(elem, dtype).index_select(0, flat).view(codes.shape)


def odd_float32(x: Tensor) -> Tensor:
    """float64 to float32, rounded to odd: rounding that once more to a format with at least two
    bits less gives the correctly rounded result."""
    near = x.float()
    error = x - near.double()
    even = (near.view(torch.int32) & 1) == 0
    inexact = (error != 0) & even & near.isfinite()
    towards = torch.copysign(torch.full_like(near, _INF), error.float())
    return torch.where(inexact, torch.nextafter(near, towards), near)


def to_fp8(x: Tensor, fmt: FloatFormat, saturate: bool) -> Tensor:
    """Bit patterns of ``x`` (any float type) in an fp8 format, to nearest even.

    Without ``saturate``, overflow gives infinity, or NaN in formats that have none. What torch's
    own casts do there differs between its versions, so they only see values in range.
    """
    x = odd_float32(x) if x.dtype == torch.float64 else x.float()
    limit = fmt.max_finite
    inside = x.clamp(-limit, limit)
    codes = inside.to(fmt.dtype).view(torch.uint8)
    if not saturate:
        # Halfway to the next step of the grid, a tie, goes to the even one of the two codes.
        top = fmt.max_magnitude_code
        tie = limit + 2.0 ** ((top >> fmt.mantissa_bits) - fmt.bias - fmt.mantissa_bits - 1)
        over = x.abs() >= tie if top & 1 else x.abs() > tie
        beyond = top + 1 if fmt.flavour == "ieee" else fmt.nan_code
        signed = torch.where(torch.signbit(x), beyond | 0x80, beyond).to(torch.uint8)
        codes = torch.where(over, signed, codes)
    return codes.masked_fill(x.isnan(), fmt.nan_code)


def _towards_zero(x: Tensor, elem: str) -> Tensor:
    """Round to nearest, then step back by one code where that grew the magnitude."""
    near = narrow(x, elem, saturate=True)
    wide = fp8_to(near, elem, torch.float64) if elem in FP8 else near.double()
    grew = wide.abs() > x.double().abs()
    bits = near.view(RAW[near.element_size()])
    back = torch.where(grew, bits - 1, bits)
    if elem in FP8 and FORMAT[elem].flavour == "fnuz":
        # The step back from the smallest negative number is zero, which has no sign.
        back = back.masked_fill(grew & (back == FORMAT[elem].nan_code), 0)
    return back.view(near.dtype)


def narrow(x: Tensor, elem: str, saturate: bool) -> Tensor:
    """A float tensor converted to IR type ``elem``, to nearest even."""
    if elem in FP8:
        return to_fp8(x, FORMAT[elem], saturate)
    if x.dtype == torch.float64 and elem in ("f16", "bf16"):
        return odd_float32(x).to(HOLD[elem])
    return x.to(HOLD[elem])


def convert(x: Tensor, source: str, elem: str, saturate: bool, rounding: str = "rtne") -> Tensor:
    """``x`` of IR type ``source`` as IR type ``elem``."""
    if source in FP8:
        if elem not in FP8:
            return fp8_to(x, source, HOLD[elem])
        x = fp8_to(x, source, torch.float32)
    if rounding == "rtz":
        return _towards_zero(x, elem)
    if rounding != "rtne":
        raise Unsupported(f"unsupported op tt.fp_to_fp rounding {rounding}")
    return narrow(x, elem, saturate)


@step("arith.truncf", "arith.extf", "tt.fp_to_fp")
def float_to_float(run: Run, op: Op, frame: Frame) -> Tensor:
    rounding = op.attrs.get("rounding") or op.attrs.get("roundingmode") or "rtne"
    saturate = run.knobs.fp8_overflow == "saturate"
    return convert(
        frame[op.operands[0]], op.types[0].elem, op.result_types[0].elem, saturate, rounding
    )


@step("arith.extsi")
def extend_signed(run: Run, op: Op, frame: Frame) -> Value:
    parts = frame.raw(op.operands[0])
    if isinstance(parts, Sum) and op.result_types[0].elem == "i64":
        whole = parts.widened()
        if whole is not None:
            return whole
    x = frame[op.operands[0]]
    wide = x.to(HOLD[op.result_types[0].elem])
    return -wide if x.dtype == torch.bool else wide


@step("arith.extui")
def extend_unsigned(run: Run, op: Op, frame: Frame) -> Tensor:
    return unsigned(frame[op.operands[0]]).to(HOLD[op.result_types[0].elem])


@step("arith.trunci")
def truncate(run: Run, op: Op, frame: Frame) -> Tensor:
    x, dtype = frame[op.operands[0]], HOLD[op.result_types[0].elem]
    return (x & 1).bool() if dtype == torch.bool else x.to(dtype)


@step("arith.sitofp")
def signed_to_float(run: Run, op: Op, frame: Frame) -> Tensor:
    x = frame[op.operands[0]]
    if x.dtype == torch.bool:
        x = -x.to(torch.int8)
    return _int_to_float(x, op.result_types[0].elem)


def _int_to_float(x: Tensor, elem: str) -> Tensor:
    if elem in FP8:
        raise Unsupported(f"unsupported op arith.sitofp to {elem}")
    return x.to(HOLD[elem])


@step("arith.uitofp")
def unsigned_to_float(run: Run, op: Op, frame: Frame) -> Tensor:
    x, elem = frame[op.operands[0]], op.result_types[0].elem
    if x.dtype != torch.int64:
        return _int_to_float(unsigned(x), elem)
    # Halve with a sticky bit, convert, double: one rounding in all (Knuth, TAOCP 4.2.1).
    halved = ((x >> 1) & ((1 << 63) - 1)) | (x & 1)
    return torch.where(x < 0, _int_to_float(halved, elem) * 2, _int_to_float(x, elem))


@step("arith.fptosi", "arith.fptoui")
def float_to_int(run: Run, op: Op, frame: Frame) -> Tensor:
    x, source = frame[op.operands[0]], op.types[0].elem
    wide = fp8_to(x, source, torch.float64) if source in FP8 else x.double()
    wide = wide.nan_to_num(nan=0.0)
    dtype = HOLD[op.result_types[0].elem]
    bits = 64 if dtype == torch.int64 else 32
    if op.name == "arith.fptosi":
        whole = wide.clamp(-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - (1 if bits == 32 else 1024))
        number = whole.to(torch.int64)
        if bits == 64:
            number = torch.where(wide >= 2.0**63, (1 << 63) - 1, number)
    elif bits == 32:
        number = wide.clamp(0.0, 2.0**32 - 1).to(torch.int64)
    else:
        number = _to_unsigned64(wide)
    return (number & 1).bool() if dtype == torch.bool else number.to(dtype)


def _to_unsigned64(wide: Tensor) -> Tensor:
    small = wide.clamp(0.0, 2.0**63 - 1024).to(torch.int64)
    upper = (wide - 2.0**63).clamp(0.0, 2.0**63 - 2048).to(torch.int64) ^ (-1 << 63)
    number = torch.where(wide >= 2.0**63, upper, small)
    return torch.where(wide >= 2.0**64, -1, number)


@step("tt.bitcast", "arith.bitcast")
def bitcast(run: Run, op: Op, frame: Frame) -> Tensor:
    x, kind = frame[op.operands[0]], op.result_types[0]
    if kind.is_pointer:
        if op.types[0].pointee != kind.pointee:
            run.memory.may_misalign = True
        return x
    dtype = HOLD[kind.elem]
    if dtype == x.dtype:
        return x
    if dtype == torch.bool:
        return x.bool()
    if x.dtype == torch.bool:
        x = x.to(torch.uint8)
    return x.contiguous().view(dtype)


@step("tt.int_to_ptr")
def int_to_pointer(run: Run, op: Op, frame: Frame) -> Tensor:
    return run.memory.address_of(frame[op.operands[0]])


@step("tt.ptr_to_int")
def pointer_to_int(run: Run, op: Op, frame: Frame) -> Tensor:
    return run.memory.real_address(frame[op.operands[0]])


@step("arith.index_cast")
def index_cast(run: Run, op: Op, frame: Frame) -> Tensor:
    return frame[op.operands[0]].to(HOLD[op.result_types[0].elem])
