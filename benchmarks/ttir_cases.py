"""vLLM kernels through their own launchers, each against a float64 reference.

A case is a function of a size (about how many programs the launch has) that makes inputs and
returns a :class:`Job`: the call to make, and how to judge it. Works alike under the Triton IR
executor and under Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from diffuzz.numerics.formats import BY_DTYPE, cast, ulp, widen

OPS = "vllm.v1.attention.ops."
LAYERS = "vllm.model_executor.layers."
FLA = "vllm.third_party.flash_linear_attention.ops."


@dataclass(frozen=True)
class Pair:
    """An output, its float64 truth, and what the difference may be: ``ulps`` of the output's type
    plus ``absolute``. Integer outputs must be equal."""

    got: Tensor
    want: Tensor
    ulps: float = 1.0
    absolute: float = 0.0

    def worst(self) -> float:
        """Largest difference as a share of what is allowed; above 1 is wrong."""
        if self.got.dtype not in BY_DTYPE:
            return 0.0 if torch.equal(self.got.long(), self.want.long()) else float("inf")
        got = widen(self.got)
        same = (got == self.want) | (got.isnan() & self.want.isnan())
        allowed = self.ulps * ulp(self.want, BY_DTYPE[self.got.dtype]) + self.absolute
        share = ((got - self.want).abs() / allowed).masked_fill(same, 0.0)
        return float(share.nan_to_num(nan=float("inf")).max()) if share.numel() else 0.0


@dataclass(frozen=True)
class Job:
    run: Callable[[], Any]
    judge: Callable[[], list[Pair]]
    programs: int


CASES: dict[str, Callable[[int], Job]] = {}


def case(name: str) -> Callable[[Callable[[int], Job]], Callable[[int], Job]]:
    def register(make: Callable[[int], Job]) -> Callable[[int], Job]:
        CASES[name] = make
        return make

    return register


HALF = torch.bfloat16
"""The 16-bit type cases use. Triton's interpreter cannot run all of them in bfloat16."""


def rand(*shape: int, seed: int = 0, dtype: torch.dtype | None = None) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype or HALF)


def fp8() -> torch.dtype:
    platform = import_module("vllm.platforms").current_platform
    return platform.fp8_dtype()


def to_fp8(x: Tensor) -> Tensor:
    return cast(x.double(), BY_DTYPE[fp8()], "saturate")


@case("merge_attn_states")
def merge_states(programs: int) -> Job:
    heads, size = 8, 128
    tokens = max(programs // heads, 1)
    module = import_module(OPS + "triton_merge_attn_states")
    a, b = rand(tokens, heads, size, seed=1), rand(tokens, heads, size, seed=2)
    la = rand(heads, tokens, seed=3, dtype=torch.float32) * 3
    lb = rand(heads, tokens, seed=4, dtype=torch.float32) * 3
    out, lse = torch.empty_like(a), torch.empty_like(la)

    def judge() -> list[Pair]:
        both = torch.stack([la, lb]).double()
        weight = both.softmax(0).transpose(1, 2).unsqueeze(-1)
        want = weight[0] * a.double() + weight[1] * b.double()
        return [
            Pair(out, want, 1, 1e-5),
            Pair(lse, both.logsumexp(0), 4, 1e-6),
        ]

    return Job(lambda: module.merge_attn_states(out, a, la, b, lb, lse), judge, tokens * heads)


@case("per_token_group_quant_fp8")
def group_quant(programs: int) -> Job:
    group, columns = 128, 512
    rows = max(programs // (columns // group), 1)
    module = import_module(LAYERS + "quantization.utils.fp8_utils")
    # Platforms without vLLM's native operator use the Triton kernel.
    module.current_platform = SimpleNamespace(
        is_cuda_alike=lambda: False, is_xpu=lambda: False, fp8_dtype=fp8
    )
    x = rand(rows, columns, seed=5)
    got: dict[str, Tensor] = {}

    def run() -> None:
        got["q"], got["s"] = module.per_token_group_quant_fp8(
            x, group, dtype=fp8(), use_ue8m0=False
        )

    def judge() -> list[Pair]:
        limit = _fp8_limit()
        grouped = x.float().view(rows, -1, group)
        scale = grouped.abs().amax(-1).clamp(min=1e-10) * torch.tensor(1.0 / limit)
        exact = grouped / scale.unsqueeze(-1)
        want = cast(exact.double().clamp(-limit, limit), BY_DTYPE[fp8()], "saturate")
        return [
            Pair(got["s"], scale.double(), 0),
            Pair(got["q"], widen(want).view(rows, columns), 0),
        ]

    return Job(run, judge, rows * columns // group)


def _fp8_limit() -> float:
    return 224.0 if fp8() == torch.float8_e4m3fnuz else 448.0


def _blocked(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, block: int) -> Tensor:
    wide_a = widen(a) * scale_a.double().repeat_interleave(block, 1)
    wide_b = widen(b) * scale_b.double().repeat_interleave(block, 0).repeat_interleave(block, 1)
    return wide_a @ wide_b.T


@case("w8a8_block_scaled_mm (fp8)")
def block_scaled(programs: int) -> Job:
    m, n, k, block = 64 * max(programs // 4, 1), 256, 256, 128
    module = import_module(LAYERS + "quantization.utils.fp8_utils")
    a, b = to_fp8(rand(m, k, seed=6)), to_fp8(rand(n, k, seed=7))
    sa = rand(m, k // block, seed=8, dtype=torch.float32).abs() + 0.1
    sb = rand(n // block, k // block, seed=9, dtype=torch.float32).abs() + 0.1
    got: dict[str, Tensor] = {}

    def run() -> None:
        got["c"] = module.w8a8_triton_block_scaled_mm(a, b, sa, sb, [block, block], torch.bfloat16)

    def judge() -> list[Pair]:
        return [Pair(got["c"], _blocked(a, b, sa, sb, block), 1, 1e-3)]

    return Job(run, judge, -(-m // 64) * (n // 128))


@case("fused_moe (bf16)")
def fused_moe(programs: int) -> Job:
    experts, tokens, k, n, top = 4, max(programs * 8, 8), 64, 128, 2
    module = import_module(LAYERS + "fused_moe.fused_moe")
    module.warn_if_moe_use_td_ineffective = lambda *a, **kw: None
    module.resolve_moe_use_td = lambda: False
    block = 16
    a, b = rand(tokens, k, seed=10), rand(experts, n, k, seed=11)
    generator = torch.Generator().manual_seed(12)
    ids = torch.rand(tokens, experts, generator=generator).argsort(1)[:, :top]
    weights = torch.rand(tokens, top, generator=generator)
    order: list[int] = []
    owner: list[int] = []
    for e in range(experts):
        slots = (ids.reshape(-1) == e).nonzero().flatten().tolist()
        padded = -(-len(slots) // block) * block
        order += slots + [tokens * top] * (padded - len(slots))
        owner += [e] * (padded // block)
    sorted_ids = torch.tensor(order, dtype=torch.int32)
    c = torch.zeros(tokens, top, n, dtype=torch.bfloat16)
    config = {
        "BLOCK_SIZE_M": block,
        "BLOCK_SIZE_N": 32,
        "BLOCK_SIZE_K": 32,
        "GROUP_SIZE_M": 4,
    }

    def run() -> None:
        tl = import_module("triton.language")
        module.invoke_fused_moe_triton_kernel(
            a,
            b,
            c,
            None,
            None,
            weights,
            sorted_ids,
            torch.tensor(owner, dtype=torch.int32),
            torch.tensor([len(order)], dtype=torch.int32),
            True,
            top,
            dict(config),
            tl.bfloat16,
            False,
            False,
            False,
            False,
            False,
        )

    def judge() -> list[Pair]:
        picked = b.double()[ids]
        want = torch.einsum("tk,tsnk->tsn", a.double(), picked) * weights.double().unsqueeze(-1)
        return [Pair(c, want, 1, 1e-4)]

    return Job(run, judge, len(owner) * (n // 32))


def all_cases() -> dict[str, Callable[[int], Job]]:
    """Every case by name, those of the other files included."""
    for part in ("attention", "cache", "linear", "more", "sampling"):
        import_module(f"ttir_cases_{part}")
    return CASES
