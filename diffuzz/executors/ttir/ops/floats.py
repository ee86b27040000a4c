"""Floating-point arithmetic and functions.

Sums, products and quotients are torch's: correctly rounded, as IEEE 754 says (the 16-bit types are
computed in float32 and rounded once more, which gives the same result for these operations). Other
functions, the square root among them, are computed in float64 and rounded: within one ulp of the
true value at most, almost always its nearest. Hardware is often less exact than that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.frames import Frame
from diffuzz.executors.ttir.ir import Op
from diffuzz.executors.ttir.ops.registry import binary, step, unary
from diffuzz.executors.ttir.values import HOLD, ranked
from diffuzz.numerics.formats import BY_DTYPE, cast

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run

_INF = float("inf")


def through_double(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``function`` computed in float64 and rounded to the type of its first argument."""

    def wide(*args: Tensor) -> Tensor:
        if args[0].dtype == torch.float64:
            return function(*args)
        return function(*(a.double() for a in args)).to(args[0].dtype)

    return wide


def fused_multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` rounded once.

    The float64 product of narrower values is exact. The float64 sum is rounded to odd (Boldo and
    Melquiond, "Emulation of FMA and correctly rounded sums", 2008), so that rounding it again to
    the narrower type gives the correctly rounded result.
    """
    if a.dtype == torch.float64:
        raise Unsupported("unsupported op math.fma on f64")
    product, addend = a.double() * b.double(), c.double()
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (total.view(torch.int64) & 1) == 0
    inexact = (error != 0) & even & total.isfinite()
    nudged = torch.nextafter(total, torch.copysign(torch.full_like(total, _INF), error))
    odd = torch.where(inexact, nudged, total)
    if a.dtype == torch.float32:
        return odd.float()
    return cast(odd, BY_DTYPE[a.dtype])


def round_half_away(x: Tensor) -> Tensor:
    whole = x.trunc()
    return torch.where((x - whole).abs() >= 0.5, whole + torch.sign(x), whole)


_TWO: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "arith.addf": torch.add,
    "arith.subf": torch.sub,
    "arith.mulf": torch.mul,
    "arith.divf": torch.div,
    "arith.remf": torch.fmod,
    "arith.maxnumf": torch.fmax,
    "arith.minnumf": torch.fmin,
    "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum,
    "tt.precise_divf": torch.div,
    "math.powf": through_double(torch.pow),
}
for _name, _two in _TWO.items():
    binary(_name, _two)

_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "arith.negf": torch.neg,
    "math.absf": torch.abs,
    "math.floor": torch.floor,
    "math.ceil": torch.ceil,
    "math.trunc": torch.trunc,
    "math.sqrt": through_double(torch.sqrt),
    "tt.precise_sqrt": through_double(torch.sqrt),
    "math.exp": through_double(torch.exp),
    "math.exp2": through_double(torch.exp2),
    "math.log": through_double(torch.log),
    "math.log2": through_double(torch.log2),
    "math.log1p": through_double(torch.log1p),
    "math.expm1": through_double(torch.expm1),
    "math.rsqrt": through_double(torch.rsqrt),
    "math.sin": through_double(torch.sin),
    "math.cos": through_double(torch.cos),
    "math.erf": through_double(torch.erf),
    "math.tanh": through_double(torch.tanh),
    "math.round": round_half_away,
    "math.roundeven": torch.round,
}
for _name, _one in _ONE.items():
    unary(_name, _one)


@step("math.fma")
def fma(run: Run, op: Op, frame: Frame) -> Tensor:
    return fused_multiply_add(*(frame[name] for name in op.operands))


_ORDERED = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}


@step("arith.cmpf")
def compare(run: Run, op: Op, frame: Frame) -> Tensor:
    a, b = frame[op.operands[0]], frame[op.operands[1]]
    predicate = op.words[0]
    if predicate in ("oeq", "ogt", "oge", "olt", "ole", "une"):
        return _ORDERED[predicate[1:]](a, b)
    either = a.isnan() | b.isnan()
    if predicate == "ord":
        return ~either
    if predicate == "uno":
        return either
    if predicate in ("false", "true"):
        return torch.full_like(either, predicate == "true")
    if predicate == "one":
        return (a != b) & ~either
    return _ORDERED[predicate[1:]](a, b) | either


@step("arith.select")
def select(run: Run, op: Op, frame: Frame) -> Tensor:
    condition, a, b = (frame[name] for name in op.operands)
    rank = max(a.dim(), b.dim()) - 1
    return torch.where(ranked(condition, rank), a, b)


@step("tt.clampf")
def clamp(run: Run, op: Op, frame: Frame) -> Tensor:
    x, low, high = (frame[name] for name in op.operands)
    if op.attrs.get("propagateNan") == "all":
        return torch.minimum(torch.maximum(x, low), high)
    return torch.fmin(torch.fmax(x, low), high)


# Functions of the vendors' device libraries, without their prefixes and type suffixes.
_EXTERN: dict[str, Callable[..., Tensor]] = {
    "tanh": through_double(torch.tanh),
    "exp": through_double(torch.exp),
    "exp2": through_double(torch.exp2),
    "exp10": through_double(lambda x: torch.pow(10.0, x)),
    "expm1": through_double(torch.expm1),
    "log": through_double(torch.log),
    "log2": through_double(torch.log2),
    "log10": through_double(torch.log10),
    "log1p": through_double(torch.log1p),
    "pow": through_double(torch.pow),
    "erf": through_double(torch.erf),
    "sin": through_double(torch.sin),
    "cos": through_double(torch.cos),
    "tan": through_double(torch.tan),
    "rsqrt": through_double(torch.rsqrt),
    "sqrt": through_double(torch.sqrt),
    "fabs": torch.abs,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": round_half_away,
    "rint": torch.round,
    "nearbyint": torch.round,
    "fmod": torch.fmod,
    "isnan": torch.isnan,
    "isnand": torch.isnan,
    "isinf": torch.isinf,
    "isinfd": torch.isinf,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "copysign": torch.copysign,
    "div_rn": torch.div,
    "fast_div": torch.div,
    "fast_exp": through_double(torch.exp),
    "fma": fused_multiply_add,
}


@step("tt.extern_elementwise")
def extern(run: Run, op: Op, frame: Frame) -> Tensor:
    symbol = str(op.attrs["symbol"]).strip('"')
    name = symbol
    for prefix in ("__ocml_", "__nv_", "__triton_hip_"):
        name = name.removeprefix(prefix)
    for suffix in ("_f32", "_f64", "_f16"):
        name = name.removesuffix(suffix)
    function = _EXTERN.get(name) or _EXTERN.get(name.removesuffix("f"))
    if function is None:
        raise Unsupported(f"unsupported op tt.extern_elementwise {symbol}")
    args = [frame[operand] for operand in op.operands]
    return function(*args).to(HOLD[op.result_types[0].elem])
