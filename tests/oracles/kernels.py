"""Small kernels in plain torch that imitate a paged gather and a quantising cache write.

They compute in float32 as a GPU would, each mistake is written into the kernel itself (not into
its result), and the float64 truth is worked out apart from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from diffuzz.expected import Expected, ExpectedBits
from diffuzz.numerics.formats import BF16, E4M3FN, E4M3FNUZ, FloatFormat, cast, decode
from diffuzz.numerics.poison import poison

HALF_ULP_FP32 = 2.0**-24


@dataclass
class Paged:
    """A paged fp8 cache ``[pages, page, heads, size]``, padded in memory, and who reads it."""

    seed: int = 0
    lengths: tuple[int, ...] = (9, 30, 17, 5)
    page: int = 8
    heads: int = 4
    size: int = 16
    fmt: FloatFormat = E4M3FN
    out: FloatFormat = BF16
    k_scale: float = 0.37
    v_scale: float = 5.3
    rows: int = 70  # output rows; those past the tokens must be zero
    codes: Tensor = field(init=False)
    table: Tensor = field(init=False)

    def __post_init__(self) -> None:
        draw = torch.Generator().manual_seed(self.seed)
        pages = sum(-(-n // self.page) for n in self.lengths) + 4
        shape = (pages, self.page, self.heads, self.size)
        normal = torch.randn(shape, generator=draw, dtype=torch.float64) * 8
        self.codes = cast(normal, self.fmt, "saturate").view(torch.uint8)
        order = torch.randperm(pages, generator=draw)
        columns = max(-(-n // self.page) for n in self.lengths)
        self.table = torch.zeros((len(self.lengths), columns), dtype=torch.int64)
        used = 0
        for row, length in enumerate(self.lengths):
            count = -(-length // self.page)
            self.table[row, :count] = order[used : used + count]
            used += count

    @property
    def tokens(self) -> list[tuple[int, int]]:
        return [(s, p) for s, n in enumerate(self.lengths) for p in range(n)]

    def slots(self, shift: int = 0, page_shift: int = 0) -> Tensor:
        found = []
        for sequence, position in self.tokens:
            at = max(position + shift, 0) + page_shift * self.page
            column = min(at // self.page, self.table.shape[1] - 1)
            found.append(int(self.table[sequence, column]) * self.page + at % self.page)
        return torch.tensor(found)

    def rows_at(self, slots: Tensor) -> Tensor:
        return decode(self.codes.flatten(0, 1)[slots], self.fmt)

    def unpadded(self) -> Tensor:
        """What a reader sees that takes pages with 32 bytes of padding for contiguous ones."""
        memory = torch.full((len(self.codes), self.codes[0].numel() + 32), 0x31, dtype=torch.uint8)
        memory[:, :-32] = self.codes.flatten(1)
        flat = memory.flatten()[: self.codes.numel()].view(self.codes.shape)
        return decode(flat.flatten(0, 1)[self.slots()], self.fmt)

    def expected(self) -> Expected:
        stored = self.rows_at(self.slots())
        k, v = fp32(self.k_scale), fp32(self.v_scale)
        value = self._padded(stored * k)
        slack = value.abs().nan_to_num(posinf=0.0) * HALF_ULP_FP32
        pad, slots = self._padded, self.slots
        return Expected(
            value,
            self.out,
            slack=slack,
            hypotheses={
                "k_scale missing": lambda: pad(stored),
                "k_scale applied twice": lambda: pad(stored * k * k),
                "k_scale inverted": lambda: pad(stored / k),
                "k and v scale swapped": lambda: pad(stored * v),
                "block stride ignored": lambda: pad(self.unpadded() * k),
                "slot off by one": lambda: pad(self.rows_at(slots(1)) * k),
                "page off by one": lambda: pad(self.rows_at(slots(0, 1)) * k),
                "mask missing": lambda: self.unmasked(stored * k),
                "old content kept": lambda: torch.full_like(value, 1.5),
            },
        )

    def _padded(self, rows: Tensor) -> Tensor:
        out = torch.zeros((self.rows, self.heads, self.size), dtype=torch.float64)
        out[: len(rows)] = rows
        return out

    def unmasked(self, rows: Tensor) -> Tensor:
        """Rows past the tokens read slot 0, 1, ... where they should be zero."""
        out = self._padded(rows)
        rest = self.rows - len(rows)
        out[len(rows) :] = self.rows_at(torch.arange(rest)) * fp32(self.k_scale)
        return out


def fp32(scale: float) -> float:
    return float(torch.tensor(scale, dtype=torch.float32))


def gather(case: Paged, fault: str = "") -> Tensor:
    """The kernel: ``out[row] = decode(cache[slot(row)]) * k_scale`` in float32, then stored."""
    fmt = case.fmt
    if "read as OCP" in fault:
        fmt = E4M3FN
    if "read as FNUZ" in fault:
        fmt = E4M3FNUZ
    scale = torch.tensor(case.k_scale, dtype=torch.float32)
    if "swapped" in fault:
        scale = torch.tensor(case.v_scale, dtype=torch.float32)
    if "inverted" in fault:
        scale = 1 / scale
    if "missing scale" in fault:
        scale = torch.tensor(1.0)
    shift = 1 if "slot+1" in fault else 0
    slots = case.slots(shift, 1 if "page+1" in fault else 0)
    loaded = decode(case.codes.flatten(0, 1)[slots], fmt)
    if "stride" in fault:
        loaded = case.unpadded()
    product = loaded.float() * scale
    if "doubled" in fault:
        product = product * scale
    if "head+1" in fault:
        product = product[:, [*range(1, case.heads), 0]]
    if "column+1" in fault:
        product = product[..., [*range(1, case.size), 0]]
    if "shuffled" in fault:
        product = product[torch.randperm(len(product), generator=torch.Generator().manual_seed(3))]
    if "transposed" in fault:
        product = product.transpose(1, 2).contiguous().view(product.shape)
    if "negated" in fault:
        product = -product
    if "lost nan" in fault:
        product = product.nan_to_num(0.0)
    out = poison(torch.empty((case.rows, case.heads, case.size), dtype=case.out.dtype))
    out[len(product) :] = 0
    if "mask" in fault:
        out[len(product) :] = (
            decode(case.codes.flatten(0, 1)[: case.rows - len(product)], fmt).float() * scale
        ).to(out.dtype)
    written = len(product) - 7 if "tail" in fault else len(product)
    out[:written] = store(product, case.out, fault)[:written]
    if "zeros" in fault:
        out.zero_()
    if "stale" in fault:
        out[:] = 1.5
    if "nan injected" in fault:
        out[3, 1, 2] = torch.nan
    return out


def store(product: Tensor, fmt: FloatFormat, fault: str) -> Tensor:
    """float32 to the output type, by way of what the fault says."""
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float16", "bfloat16"):
        if f"through {name}" in fault:
            dtype = getattr(torch, name)
            top = torch.finfo(dtype).max
            narrow = product.clamp(-top, top).to(dtype).float()
            # What torch itself makes of overflow to fp8 differs between its versions.
            if "saturating" not in fault:
                limit = torch.finfo(dtype).max * (1 + torch.finfo(dtype).eps / 4)
                lost = torch.nan if "e4m3" in name else torch.inf
                narrow = torch.where(product.abs() > limit, lost * product.sign(), narrow)
            product = narrow
    if "truncated" in fault:
        kept = -1 << (23 - fmt.mantissa_bits)
        product = (product.view(torch.int32) & kept).view(torch.float32)
    return product.to(fmt.dtype)


@dataclass
class Write:
    """Rows ``[tokens, size]`` written as fp8 codes into slots of a cache ``[slots, size]``."""

    seed: int = 0
    tokens: int = 40
    size: int = 16
    slots: int = 64
    fmt: FloatFormat = E4M3FN
    scale: float = 0.37
    spread: float = 20.0
    overflow: str = "saturate"
    rows: Tensor = field(init=False)
    at: Tensor = field(init=False)

    def __post_init__(self) -> None:
        draw = torch.Generator().manual_seed(self.seed)
        self.rows = torch.randn((self.tokens, self.size), generator=draw) * self.spread
        self.at = torch.randperm(self.slots - 1, generator=draw)[: self.tokens]

    def expected(self) -> dict[str, Expected | ExpectedBits]:
        scale = fp32(self.scale)
        value = self.rows.double() / scale
        untouched = torch.ones(self.slots, dtype=torch.bool)
        untouched[self.at] = False
        blank = poison(torch.empty((int(untouched.sum()), self.size), dtype=torch.uint8))
        return {
            "written": Expected(
                value,
                self.fmt,
                slack=value.abs() * 2 * HALF_ULP_FP32,
                overflow=self.overflow,  # type: ignore[arg-type]
                hypotheses={
                    "scale missing": lambda: self.rows.double(),
                    "scale inverted": lambda: self.rows.double() * scale,
                    "scale applied twice": lambda: value / scale,
                },
            ),
            "untouched": ExpectedBits(blank, meaning="cache slots no token maps to"),
            "input:rows": ExpectedBits(self.rows.clone(), meaning="the input rows"),
        }


def write(case: Write, fault: str = "") -> dict[str, Tensor]:
    """The kernel: ``cache[slot] = fp8(row / scale)``; returns what a target would judge."""
    cache = poison(torch.empty((case.slots, case.size), dtype=torch.uint8))
    rows = case.rows.clone()
    scale = torch.tensor(case.scale, dtype=torch.float32)
    if "missing scale" in fault:
        scale = torch.tensor(1.0)
    quotient = rows * scale if "inverted" in fault else rows / scale
    if "doubled" in fault:
        quotient = quotient / scale
    if "bfloat16" in fault:
        quotient = quotient.bfloat16().float()
    fmt = E4M3FNUZ if "as FNUZ" in fault else E4M3FN if "as OCP" in fault else case.fmt
    policy = "inf" if "not saturated" in fault else case.overflow
    if "saturated instead" in fault:
        policy = "saturate"
    codes = cast(quotient.double(), fmt, policy).view(torch.uint8)  # type: ignore[arg-type]
    if "truncated" in fault:
        down = decode(codes, fmt).abs() > quotient.double().abs()
        codes = codes - down.to(torch.uint8)
    at = case.at + 1 if "slot+1" in fault else case.at
    cache[at] = codes
    if "mutated" in fault:
        rows[5, 3] += 1
    untouched = torch.ones(case.slots, dtype=torch.bool)
    untouched[case.at] = False
    return {"written": cache[case.at], "untouched": cache[untouched], "input:rows": rows}
