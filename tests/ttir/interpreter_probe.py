"""Runs the checks of docs/executors.md's last table; prints one JSON object.

Run as a script: ``TRITON_INTERPRET=1`` for Triton's interpreter, without it for the Triton IR
executor. A check gives "exact", "wrong" or "cannot run".
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from diffuzz.numerics.formats import BY_DTYPE, cast, decode

N = 4096
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def convert(X, Y, N: tl.constexpr):
    c = tl.arange(0, N)
    tl.store(Y + c, tl.load(X + c).to(Y.dtype.element_ty))


@triton.jit
def add(X, Z, Y, N: tl.constexpr):
    c = tl.arange(0, N)
    tl.store(Y + c, tl.load(X + c) + tl.load(Z + c))


@triton.jit
def multiply(X, Z, Y, N: tl.constexpr):
    c = tl.arange(0, N)
    tl.store(Y + c, tl.load(X + c) * tl.load(Z + c))


@triton.jit
def half_of(X, Y, N: tl.constexpr):
    c = tl.arange(0, N)
    tl.store(Y + c, tl.load(X + c) + tl.full([N], 0.5, tl.bfloat16))


@triton.jit
def product(A, B, C, N: tl.constexpr):
    r = tl.arange(0, N)[:, None]
    c = tl.arange(0, N)[None, :]
    a = tl.load(A + r * N + c)
    b = tl.load(B + r * N + c)
    tl.store(C + r * N + c, tl.dot(a, b))


@triton.jit
def past(X, Y, N: tl.constexpr):
    c = tl.arange(0, N)
    tl.store(Y + c, tl.load(X + c + 1))


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def equal(got: torch.Tensor, want: torch.Tensor) -> bool:
    raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[got.element_size()]
    return torch.equal(got.view(raw), want.view(raw))


def cast_check(dtype: torch.dtype, x: torch.Tensor) -> bool:
    y = torch.zeros(len(x)).to(dtype)
    convert[(1,)](x, y, len(x))
    overflow = "saturate" if dtype.itemsize == 1 else "inf"
    return equal(y, cast(x.double(), BY_DTYPE[dtype], overflow))


def two(kernel: object, dtype: torch.dtype, want: Callable[..., torch.Tensor]) -> bool:
    if dtype.is_floating_point:
        a, b = normal(0, N).to(dtype), normal(1, N).to(dtype)
    else:
        a, b = torch.full((N,), 100_003, dtype=dtype), torch.full((N,), 70_001, dtype=dtype)
    y = torch.zeros_like(a)
    kernel[(1,)](a, b, y, N)  # type: ignore[index]
    return equal(y, want(a, b))


def constant() -> bool:
    x = normal(0, N).bfloat16()
    y = torch.zeros_like(x)
    half_of[(1,)](x, y, N)
    return equal(y, x + 0.5)


def matrix() -> bool:
    a, b, c = normal(0, 32, 32).bfloat16(), normal(1, 32, 32).bfloat16(), torch.zeros(32, 32)
    product[(1,)](a, b, c, 32)
    return bool(((c.double() - a.double() @ b.double()).abs() < 1e-4).all())


def nan_bytes() -> bool:
    codes = torch.arange(256, dtype=torch.uint8)
    y = torch.zeros(256)
    convert[(1,)](codes.view(torch.float8_e4m3fn), y, 256)
    want = decode(codes, BY_DTYPE[torch.float8_e4m3fn])
    return bool(((y.double() == want) | (y.isnan() & want.isnan())).all())


CHECKS: dict[str, Callable[[], bool]] = {
    "bf16-cast": lambda: cast_check(torch.bfloat16, normal(0, N)),
    "bf16-add": lambda: two(add, torch.bfloat16, torch.add),
    "bf16-mul": lambda: two(multiply, torch.bfloat16, torch.mul),
    "bf16-dot": matrix,
    "bf16-full": constant,
    "fp8-cast": lambda: cast_check(torch.float8_e4m3fn, normal(0, N) * 0.01),
    "fp8-overflow": lambda: cast_check(torch.float8_e4m3fn, torch.full((16,), 1000.0)),
    "fp8-decode": nan_bytes,
    "fnuz-cast": lambda: cast_check(torch.float8_e4m3fnuz, normal(0, N)),
    "f16-add": lambda: two(add, torch.float16, torch.add),
    "i32-mul": lambda: two(multiply, torch.int32, torch.mul),
}


def main() -> None:
    executor = None
    if not INTERPRETED:
        from diffuzz.arch import get_arch
        from diffuzz.executors.triton_ir import TritonIRExecutor

        executor = TritonIRExecutor()
    found = {}
    for name, check in CHECKS.items():
        if executor is not None:
            executor.prepare(get_arch("gfx942" if name == "fnuz-cast" else "gfx950"))
        try:
            found[name] = "exact" if check() else "wrong"
        except Exception:
            found[name] = "cannot run"
    x = torch.zeros(64)[:16]
    past[(1,)](x, torch.zeros(16), 16)
    found["bounds"] = "reported" if executor is not None and executor.reports() else "silent"
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
