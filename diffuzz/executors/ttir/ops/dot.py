"""Matrix products, accumulated in float32 (float64 and integer products in their own type).

Products of 8- and 16-bit floats are exact in float32. float32 operands are used whole when the
IR says ``ieee`` (or one of the split modes that approximate it) and cut to the 10 stored
mantissa bits of TF32 when it says ``tf32``, as NVIDIA's tensor cores do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from diffuzz.executors.ttir.frames import Frame
from diffuzz.executors.ttir.ir import Op
from diffuzz.executors.ttir.ops.casts import fp8_to
from diffuzz.executors.ttir.ops.registry import step
from diffuzz.executors.ttir.values import FP8, spread

if TYPE_CHECKING:
    from diffuzz.executors.ttir.interpret import Run

_TF32_KEPT = -(1 << 13)
_EXACT_FLOAT_DEPTH = 1024  # 2**10 products below 2**14 stay below float32's 2**24.


def _operand(value: Tensor, elem: str, precision: str) -> Tensor:
    if elem in FP8:
        return fp8_to(value, elem, torch.float32)
    if elem == "f32" and precision == "tf32":
        return (value.contiguous().view(torch.int32) & _TF32_KEPT).view(torch.float32)
    return value if value.dtype == torch.float64 else value.float()


def product(a: Tensor, b: Tensor) -> Tensor:
    """Batched matrix product; a uniform right operand makes it one large product."""
    if b.dim() == 3 and b.shape[0] == 1:
        return torch.matmul(a, b[0])
    return torch.matmul(a, b)


@step("tt.dot")
def dot(run: Run, op: Op, frame: Frame) -> Tensor:
    kinds = [*op.types[:2], op.result_types[0]]
    a, b, c = (
        spread(frame[name], kind.shape) for name, kind in zip(op.operands, kinds, strict=True)
    )
    if kinds[0].elem.startswith("i"):
        narrow = kinds[0].shape[-1] <= _EXACT_FLOAT_DEPTH and a.element_size() == 1
        wide = torch.float32 if narrow else torch.float64
        return product(a.to(wide), b.to(wide)).to(torch.int64).add(c).to(c.dtype)
    precision = str(op.attrs.get("inputPrecision", "ieee"))
    left, right = _operand(a, kinds[0].elem, precision), _operand(b, kinds[1].elem, precision)
    total = product(left, right)
    if c.dtype == total.dtype:
        return total.add_(c) if c.shape[0] <= total.shape[0] else total + c
    return (total + c.to(total.dtype)).to(c.dtype)
