"""Loads and stores of every shape of address and mask against plain indexing."""

from __future__ import annotations

import random

import pytest
import torch
import triton
import triton.language as tl

from .conftest import Start


@triton.jit
def tiles(
    X,
    Y,
    x_program,
    x_row,
    x_col,
    y_program,
    y_row,
    y_col,
    rows,
    cols,
    R: tl.constexpr,
    C: tl.constexpr,
    FLAT: tl.constexpr,
    STEP: tl.constexpr,
):
    p = tl.program_id(0)
    r = tl.arange(0, R)[:, None]
    # Columns as they come, or in groups of neighbours with gaps between.
    c = tl.arange(0, C)[None, :]
    at = c // STEP * (2 * STEP) + c % STEP if STEP else c
    mask = (r < rows) & (c < cols)
    if FLAT:
        x = tl.load(X + (p * x_program + r * x_row + at * x_col), mask=mask, other=-1)
        tl.store(Y + (p * y_program + r * y_row + c * y_col), x, mask=mask)
    else:
        x = tl.load(X + p * x_program + r * x_row + at * x_col, mask=mask, other=-1)
        tl.store(Y + p * y_program + r * y_row + c * y_col, x, mask=mask)
    everywhere = tl.load(X + p * x_program + r * x_row + at * x_col, mask=mask, other=7)
    tl.store(Y + p * y_program + r * y_row + c * y_col, tl.where(everywhere == 7, 7, x), mask=mask)


def reach(*pairs: tuple[int, int]) -> tuple[int, int]:
    """Least and largest offset of ``sum(i * stride)`` with ``0 <= i < n`` for each pair."""
    low = sum(min(0, (n - 1) * s) for n, s in pairs)
    return low, sum(max(0, (n - 1) * s) for n, s in pairs)


def layout(draw: random.Random, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    """Strides for (programs, rows, columns) under which no two elements meet, in some order."""
    strides, step = [0, 0, 0], draw.choice([1, 1, 2, 3])
    for axis in draw.sample(range(3), 3):
        strides[axis] = step * draw.choice([1, 1, 1, -1])
        step *= max(sizes[axis], 1)
        step += draw.choice([0, 0, 1, 5])
    return strides[0], strides[1], strides[2]


@pytest.mark.parametrize("together", [2, 1 << 15])
def test_strided_tiles(start: Start, together: int) -> None:
    launcher = start(max_programs=together)
    draw = random.Random(5)
    for _ in range(80):
        height, width = draw.choice([(4, 16), (8, 8), (1, 32)])
        step = draw.choice([0, 0, 4, 2])
        spread = 2 * width if step else width
        programs = draw.randint(1, 7)
        rows, cols = draw.randint(0, height), draw.randint(0, width)
        dtype = draw.choice([torch.float32, torch.bfloat16, torch.int8, torch.int64])
        xs = layout(draw, (programs, rows, spread))
        ys = layout(draw, (programs, rows, cols))
        low, high = reach(*zip((programs, rows, spread), xs, strict=True))
        source = torch.arange(high - low + 1).remainder(100).to(dtype)
        y_low, y_high = reach(*zip((programs, rows, cols), ys, strict=True))
        target = torch.full((y_high - y_low + 1,), -3).to(dtype)
        want = target.clone()
        for p in range(programs):
            for r in range(rows):
                for c in range(cols):
                    at = c // step * 2 * step + c % step if step else c
                    x = source[p * xs[0] + r * xs[1] + at * xs[2] - low]
                    want[p * ys[0] + r * ys[1] + c * ys[2] - y_low] = x
        if rows and cols:
            tiles[(programs,)](
                source[-low:],
                target[-y_low:],
                *xs,
                *ys,
                rows,
                cols,
                height,
                width,
                draw.random() < 0.5,
                step,
            )
        # Addresses before a view's first element are outside it, but inside the storage.
        kinds = {r.kind for r in launcher.reports}
        assert kinds <= ({"out-of-bounds"} if low or y_low else set())
        assert torch.equal(target, want)
        launcher.clear()
