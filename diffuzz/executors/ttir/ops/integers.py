"""Integer arithmetic, wrapping at the width of the type.

``i1`` is held as bool; signed ``i1`` true is -1. What the IR leaves undefined is given a fixed
value: division by zero gives all ones and the dividend as remainder, as NVIDIA hardware does;
shifts by the width or more give 0 (or the sign).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.frames import Frame, Value
from diffuzz.executors.ttir.ir import Op
from diffuzz.executors.ttir.ops.registry import binary, step, unary
from diffuzz.executors.ttir.sums import Sum, fits
from diffuzz.executors.ttir.values import broadcast

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run

_TOP = -1 << 63
_SMALL = 4096


def unsigned(value: Tensor) -> Tensor:
    """Unsigned reading of an integer up to 32 bits wide, as int64."""
    if value.dtype == torch.bool:
        return value.long()
    return value.long() & ((1 << (8 * value.dtype.itemsize)) - 1)


def ordered(value: Tensor) -> Tensor:
    """int64 that compares (signed) as ``value`` does unsigned."""
    return value ^ _TOP if value.dtype == torch.int64 else unsigned(value)


def divide_signed(a: Tensor, b: Tensor) -> Tensor:
    special = (b == 0) | (b == -1)
    if not bool(special.any()):
        return torch.div(a, b, rounding_mode="trunc")
    quotient = torch.div(a, b.masked_fill(special, 1), rounding_mode="trunc")
    return torch.where(b == 0, -1, torch.where(b == -1, -a, quotient))


def remainder_signed(a: Tensor, b: Tensor) -> Tensor:
    special = (b == 0) | (b == -1)
    if not bool(special.any()):
        return torch.fmod(a, b)
    left = torch.fmod(a, b.masked_fill(special, 1))
    return torch.where(b == 0, a, torch.where(b == -1, torch.zeros_like(a), left))


def _divide_unsigned64(a: Tensor, b: Tensor) -> Tensor:
    # Divisors with the top bit set give 0 or 1; others: halve, divide, correct by one step.
    big = b < 0
    safe = b.masked_fill(big | (b == 0), 1)
    half = torch.div(shift_right_logical(a, torch.ones_like(a)), safe, rounding_mode="trunc") << 1
    left = a - half * safe
    half = half + (ordered(left) >= ordered(safe)).long()
    whole = torch.where(big, (ordered(a) >= ordered(b)).long(), half)
    return torch.where(b == 0, torch.full_like(whole, -1), whole)


def divide_unsigned(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.int64:
        return _divide_unsigned64(*broadcast(a, b))
    return divide_signed(unsigned(a), unsigned(b)).to(a.dtype)


def remainder_unsigned(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.int64:
        return torch.where(b == 0, a, a - divide_unsigned(a, b) * b)
    return remainder_signed(unsigned(a), unsigned(b)).to(a.dtype)


def shift_left(a: Tensor, b: Tensor) -> Tensor:
    width = 8 * a.dtype.itemsize
    return torch.where((b < 0) | (b >= width), torch.zeros_like(a), a << b.clamp(0, width - 1))


def shift_right(a: Tensor, b: Tensor) -> Tensor:
    width = 8 * a.dtype.itemsize
    count = torch.where(b < 0, torch.full_like(b, width - 1), b.clamp(max=width - 1))
    return a >> count


def shift_right_logical(a: Tensor, b: Tensor) -> Tensor:
    width = 8 * a.dtype.itemsize
    outside = (b < 0) | (b >= width)
    count = b.clamp(0, width - 1)
    if width < 64:
        shifted = (unsigned(a) >> count.long()).to(a.dtype)
    else:
        keep = torch.where(count == 0, -1, (1 << (64 - count.clamp(min=1))) - 1)
        shifted = (a >> count) & keep
    return torch.where(outside, torch.zeros_like(shifted), shifted)


def high_product(a: Tensor, b: Tensor) -> Tensor:
    """Upper half of the unsigned product, from half-width pieces."""
    half = 4 * a.dtype.itemsize
    mask = (1 << half) - 1
    down = torch.full((1,), half, dtype=torch.int64)
    x = a if half == 32 else unsigned(a)
    y = b if half == 32 else unsigned(b)
    xl, xh = x & mask, shift_right_logical(x, down)
    yl, yh = y & mask, shift_right_logical(y, down)
    middle = xh * yl + shift_right_logical(xl * yl, down)
    other = xl * yh + (middle & mask)
    high = xh * yh + shift_right_logical(middle, down) + shift_right_logical(other, down)
    return high.to(a.dtype)


@step("arith.addi")
def add(run: Run, op: Op, frame: Frame) -> Value:
    """A sum larger than its operands is kept in parts until somebody needs it whole."""
    a, b = frame.raw(op.operands[0]), frame.raw(op.operands[1])
    if isinstance(a, Sum):
        return a.plus(b)
    if isinstance(b, Sum):
        return b.plus(a)
    if a.dtype == torch.bool:
        return a ^ b
    return a + b if fits(a, b) else Sum([a, b])


@step("arith.andi")
def and_(run: Run, op: Op, frame: Frame) -> Tensor:
    """A mask that excludes nothing leaves the other as it is, however large it would get."""
    a, b = frame[op.operands[0]], frame[op.operands[1]]
    if a.dtype == torch.bool and a.dim() > 1 and not fits(a, b):
        for mask, other in ((a, b), (b, a)):
            if mask.shape[0] == 1 and mask.numel() < _SMALL and bool(mask.all()):
                return other
    return a & b


def _subtract(a: Tensor, b: Tensor) -> Tensor:
    return a ^ b if a.dtype == torch.bool else a - b


def _multiply(a: Tensor, b: Tensor) -> Tensor:
    return a & b if a.dtype == torch.bool else a * b


binary("arith.subi", _subtract)
binary("arith.muli", _multiply)
binary("arith.divsi", divide_signed)
binary("arith.remsi", remainder_signed)
binary("arith.divui", divide_unsigned)
binary("arith.remui", remainder_unsigned)
binary("arith.ceildivsi", lambda a, b: -divide_floor(-a, b))
binary("arith.floordivsi", lambda a, b: divide_floor(a, b))
binary("arith.ori", torch.bitwise_or)
binary("arith.xori", torch.bitwise_xor)
binary("arith.shli", shift_left)
binary("arith.shrsi", shift_right)
binary("arith.shrui", shift_right_logical)
binary("arith.minsi", torch.minimum)
binary("arith.maxsi", torch.maximum)
binary("arith.minui", lambda a, b: torch.where(ordered(a) < ordered(b), a, b))
binary("arith.maxui", lambda a, b: torch.where(ordered(a) > ordered(b), a, b))
binary("tt.mulhiui", high_product)
unary("math.absi", torch.abs)


def divide_floor(a: Tensor, b: Tensor) -> Tensor:
    quotient = divide_signed(a, b)
    inexact = (remainder_signed(a, b) != 0) & ((a < 0) != (b < 0))
    return quotient - inexact.to(quotient.dtype)


_COMPARE = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}


@step("arith.cmpi")
def compare(run: Run, op: Op, frame: Frame) -> Tensor:
    a, b = frame[op.operands[0]], frame[op.operands[1]]
    predicate = op.words[0]
    if predicate in ("eq", "ne"):
        return _COMPARE[predicate](a, b)
    if predicate[0] == "u":
        a, b = ordered(a), ordered(b)
    elif a.dtype == torch.bool:
        a, b = -a.to(torch.int8), -b.to(torch.int8)
    return _COMPARE[predicate[1:]](a, b)
