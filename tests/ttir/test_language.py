"""Triton's own library functions, as kernels use them, against torch."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from .conftest import Start


@triton.jit
def pair_scan(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def absmax(a, b):
    return tl.maximum(tl.abs(a), tl.abs(b))


@triton.jit
def tour(X, Out, N: tl.constexpr):
    c = tl.arange(0, N)
    x = tl.load(X + c)
    row = 0
    tl.store(Out + row * N + c, tl.sort(x, 0))
    row += 1
    tl.store(Out + row * N + c, tl.flip(x, 0))
    row += 1
    tl.store(Out + row * N + c, tl.cumprod(x * 0.01 + 1))
    row += 1
    tl.store(Out + row * N + c, tl.softmax(x, 0))
    row += 1
    tl.store(Out + row * N + c, tl.sigmoid(x))
    row += 1
    decay, state = tl.associative_scan((x * 0.1, x), 0, pair_scan)
    tl.store(Out + row * N + c, state)
    row += 1
    tl.store(Out + row * N + c, decay)
    row += 1
    half = tl.reshape(x, [N // 2, 2])
    a, b = tl.split(half)
    tl.store(Out + row * N + c, tl.interleave(b, a))
    row += 1
    tl.store(Out + row * N + c, tl.where(c % 3 == 0, tl.reduce(x, 0, absmax), tl.max(x)))
    row += 1
    for k in tl.static_range(2):
        x += k
    for k in tl.range(0, 3, num_stages=2):
        x += k
    tl.debug_barrier()
    tl.store(Out + row * N + c, x)
    row += 1
    tl.store(Out + row * N + c, tl.gather(x, (N - 1) - c, 0))
    row += 1
    tl.store(Out + row * N + c, libdevice.tanh(x))


def scanned(x: torch.Tensor) -> torch.Tensor:
    state, out = torch.zeros(()).double(), []
    for v in x.double():
        state = state * (v * 0.1) + v
        out.append(state)
    return torch.stack(out)


@pytest.mark.parametrize("arch", ["gfx942", "sm90"])
def test_library_functions(start: Start, arch: str) -> None:
    launcher = start(arch)
    n = 64
    x = torch.randn(n, generator=torch.Generator().manual_seed(4))
    out = torch.zeros(12, n)
    tour[(1,)](x, out, n)
    wide = x.double()
    moved = (x + 0 + 1 + 0 + 1 + 2).double()
    most = torch.full((n,), float(x.abs().max()))
    want = [
        wide.sort().values,
        wide.flip(0),
        (wide * 0.01 + 1).cumprod(0),
        wide.softmax(0),
        wide.sigmoid(),
        scanned(x),
        (wide * 0.1).cumprod(0),
        wide.view(-1, 2).flip(1).reshape(-1),
        torch.where(torch.arange(n) % 3 == 0, most, x.max()).double(),
        moved,
        moved.flip(0),
        moved.tanh(),
    ]
    for k, row in enumerate(want):
        assert torch.allclose(out[k].double(), row, rtol=2e-6, atol=1e-7), k
    assert launcher.reports == []


@triton.jit
def random_numbers(Out, Whole, seed, N: tl.constexpr):
    c = tl.arange(0, N)
    tl.store(Out + c, tl.rand(seed, c))
    tl.store(Out + N + c, tl.randn(seed, c))
    a, b, _, d = tl.randint4x(seed, c)
    tl.store(Whole + c, a)
    tl.store(Whole + N + c, b ^ d)


def philox(seed: int, counter: int) -> list[int]:
    """Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011)."""
    mask = (1 << 32) - 1
    c, k = [counter, 0, 0, 0], [seed & mask, seed >> 32]
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(right >> 32) ^ c[1] ^ k[0], right & mask, (left >> 32) ^ c[3] ^ k[1], left & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def test_random_numbers_bit_for_bit(start: Start) -> None:
    start()
    n, seed = 128, 0x1234567
    out, whole = torch.zeros(2, n), torch.zeros(2, n, dtype=torch.int32)
    random_numbers[(1,)](out, whole, seed, n)
    for k in range(n):
        a, b, _, d = philox(seed, k)
        assert int(whole[0, k]) & 0xFFFFFFFF == a
        assert int(whole[1, k]) & 0xFFFFFFFF == b ^ d
    assert bool(((out[0] >= 0) & (out[0] < 1)).all())
    assert abs(float(out[1].mean())) < 0.4
