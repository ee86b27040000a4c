"""Small kernels of our own. Lines that a test wants to see reported end in a comment naming it;
:func:`line_of` finds them."""

from __future__ import annotations

import inspect

import triton
import triton.language as tl


def line_of(mark: str) -> int:
    """Line of this file that ends in the comment ``mark``."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    (found,) = [k for k, text in enumerate(lines, 1) if text.rstrip().endswith(f"# {mark}")]
    return found


@triton.jit
def scale_rows(X, Y, n, stride, factor, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(X + row * stride + cols, mask=cols < n, other=0.0)
    tl.store(Y + row * stride + cols, (x * factor).to(Y.dtype.element_ty), mask=cols < n)


@triton.jit
def read_past(X, Y, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + cols)  # read past
    tl.store(Y + cols, x, mask=cols < n)


@triton.jit
def write_past(X, Y, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + cols, mask=cols < n)
    tl.store(Y + cols, x)  # write past


@triton.jit
def mask_off_by_one(X, Y, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + cols, mask=cols < n)
    tl.store(Y + cols, x, mask=cols <= n)  # off by one


@triton.jit
def masked_copy(X, Y, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + cols, tl.load(X + cols, mask=cols < n), mask=cols < n)


@triton.jit
def same_row(X, Y, SHARED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(X + row * BLOCK + cols)
    tl.store(Y + (row // SHARED) * BLOCK + cols, x)  # two writers


@triton.jit
def shift_in_place(X, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(X + (row + 1) * BLOCK + cols)  # reads what others write
    tl.store(X + row * BLOCK + cols, x)  # writes what others read


@triton.jit
def twice_in_place(X, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(X + row * n + cols, mask=cols < n)
    tl.store(X + row * n + cols, x + 1, mask=cols < n)
    y = tl.load(X + row * n + cols, mask=cols < n)
    tl.store(X + row * n + cols, y * 2, mask=cols < n)


@triton.jit
def scatter_by_index(X, Y, Index, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(Y + tl.load(Index + cols), tl.load(X + cols))  # two lanes


@triton.jit
def half_then_all(X, Y, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(X + cols, cols.to(tl.float32), mask=cols < n)
    x = tl.load(X + cols)  # unwritten
    tl.store(Y + cols, x)


@triton.jit
def far_offset(X, Y, stride, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    cols = tl.arange(0, BLOCK)
    tl.store(Y + row * BLOCK + cols, tl.load(X + row * stride + cols))  # far


@triton.jit
def misaligned(Y):
    bytes_ = Y.to(tl.pointer_type(tl.int8)) + 2
    tl.store(bytes_.to(tl.pointer_type(tl.float32)), 1.0)  # misaligned


@triton.jit
def checked(X, n):
    x = tl.load(X + tl.program_id(0))
    tl.device_assert(x < n, "x is too large")  # asserted


@triton.jit
def endless(Y, n):
    i = 0
    while i < n:
        i = i * 1  # turns for ever
        tl.store(Y, i)


@triton.jit
def paths(X, Y, n):
    p = tl.program_id(0)
    if p % 5 == 0:
        return
    a = tl.load(X + p)
    t = a
    for i in range(p % 7, a, 2):
        if i % 3 == p % 3:
            t += i * 2
        else:
            j = i
            while j > 1:
                if j % 2 == 0:  # noqa: SIM108
                    j = j // 2
                else:
                    j = 3 * j + 1
                t += 1
    if t > n and a > 10:
        t = -t
    tl.store(Y + p, t)


@triton.jit
def tickets(Counter, Out, Largest):
    p = tl.program_id(0)
    ticket = tl.atomic_add(Counter, 1)
    tl.store(Out + ticket, p)
    tl.atomic_max(Largest, p)


@triton.jit
def bins(X, Counts, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(Counts + tl.load(X + cols, mask=cols < n, other=0), 1, mask=cols < n)


@triton.jit
def claim(Slots, Won):
    p = tl.program_id(0)
    before = tl.atomic_cas(Slots + p % 3, 0, p + 1)
    tl.store(Won + p, before == 0)


@triton.jit
def both(x, y):
    return x * y, x + y


@triton.jit(noinline=True)
def apart(x, y):
    return x - y


@triton.jit
def calls(X, Y, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(X + cols)
    product, total = both(x, 2)
    tl.store(Y + cols, product - total + apart(tl.program_id(0), 3))


@triton.jit
def bad_types(X, Y, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(X + cols)
    tl.store(Y + cols, tl.dot(x, x))  # refused


@triton.jit
def through_table(Table, Y, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    base = tl.load(Table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(Y + tl.program_id(0) * BLOCK + cols, tl.load(base + cols))


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def by_heuristic(X, Y, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(Y + cols, tl.load(X + cols, mask=cols < n) + BLOCK, mask=cols < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64}, num_warps=8)], key=["n"]
)
@triton.jit
def by_autotune(X, Y, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + cols, tl.load(X + cols, mask=cols < n) + BLOCK, mask=cols < n)


@triton.jit
def half_masked(X, Y, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(Y + cols, tl.load(X + cols, mask=cols < n))


@triton.jit
def by_descriptor(X, Y, m, n, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(X, [m, n], [n, 1], [BM, BN])
    target = tl.make_tensor_descriptor(Y, [m, n], [n, 1], [BM, BN])
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([row, col], source.load([row, col]) * 2)


@triton.jit
def from_host_descriptor(X, Y, BM: tl.constexpr, BN: tl.constexpr):
    tl.store(Y + tl.arange(0, BN), tl.sum(X.load([0, 0]), 0))


@triton.jit
def no_such_instruction(X, Y, N: tl.constexpr):
    cols = tl.arange(0, N)
    y = tl.inline_asm_elementwise(
        "no.such.op $0, $1;", "=r,r", [tl.load(X + cols)], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(Y + cols, y)


@triton.jit
def last_one_sums(
    X, Partial, Counter, Out, N: tl.constexpr, BLOCK: tl.constexpr, SEM: tl.constexpr
):
    p = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    tl.store(Partial + p, tl.sum(tl.load(X + p * BLOCK + cols)))
    if tl.atomic_add(Counter, 1, sem=SEM) == N - 1:
        tl.store(Out, tl.sum(tl.load(Partial + tl.arange(0, N))))  # reads all partials
