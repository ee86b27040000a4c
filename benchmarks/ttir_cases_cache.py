"""Kernels that gather from the KV cache and write to it (see :mod:`ttir_cases`), bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
import ttir_cases
from ttir_cases import OPS, Job, Pair, case, fp8, rand, to_fp8

from diffuzz.numerics.formats import widen

_FILE = "vllm.v1.attention.backends.rocm_aiter_fa"


def rocm_module() -> Any:
    """The functions the file defines where the platform is ROCm; the classes around them need
    all of vLLM."""
    module = import_module(_FILE)
    if hasattr(module, "cp_mha_gather_cache"):
        return module
    raise RuntimeError(f"{_FILE} defines no cp_mha_gather_cache")


@case("gather (cp_mha_gather_cache)")
def gather(programs: int) -> Job:
    heads, size, page = 8, 128, 16
    tokens = max(programs // heads, 1)
    module = rocm_module()
    count = max(tokens // 300, 1)
    lengths = [tokens // count] * count
    lengths[-1] += tokens - sum(lengths)
    pages = [-(-n // page) for n in lengths]
    generator = torch.Generator().manual_seed(80)
    order = torch.randperm(sum(pages) + 2, generator=generator)
    table = torch.zeros(count, max(pages), dtype=torch.int32)
    at = 0
    for row, used in enumerate(pages):
        table[row, :used] = order[at : at + used]
        at += used
    caches = [
        to_fp8(rand(len(order) * page * heads, size, seed=s)).view(-1, page, heads, size)
        for s in (81, 82)
    ]
    outs = [torch.empty(tokens, heads, size, dtype=ttir_cases.HALF) for _ in range(2)]
    scales = torch.tensor([0.37]), torch.tensor([1.7])
    owner = torch.repeat_interleave(torch.arange(count), torch.tensor(lengths)).int()
    starts = torch.tensor([0, *lengths]).cumsum(0).int()

    def run() -> None:
        module.cp_mha_gather_cache(
            *caches,
            *outs,
            table,
            *scales,
            starts,
            owner,
            torch.zeros(count, dtype=torch.int32),
            True,
            "NHD",
            tokens,
        )

    def judge() -> list[Pair]:
        position = torch.arange(tokens) - starts[owner.long()]
        where = table[owner.long(), position // page].long(), position % page
        pairs = []
        for cache, out, scale in zip(caches, outs, scales, strict=True):
            exact = (widen(cache[where]).float() * scale).to(ttir_cases.HALF)
            pairs.append(Pair(out, exact.double(), 0))
        return pairs

    return Job(run, judge, tokens * heads)


@case("cache write (reshape_and_cache_shuffle)")
def cache_write(programs: int) -> Job:
    heads, size, page = 8, 128, 16
    tokens = max(programs // heads, 1)
    module = rocm_module()
    pages = -(-tokens // page) + 1
    key, value = rand(tokens, heads, size, seed=83), rand(tokens, heads, size, seed=84)
    caches = [torch.zeros(pages, page, heads, size).to(fp8()) for _ in range(2)]
    slots = torch.randperm(pages * page, generator=torch.Generator().manual_seed(85))[:tokens]

    def run() -> None:
        module.reshape_and_cache_shuffle_triton(
            key, value, *caches, slots, "fp8", torch.ones(1), torch.ones(1)
        )

    def judge() -> list[Pair]:
        x = 16
        where, inside = slots // page, slots % page
        k = caches[0].view(pages, heads, size // x, page, x)[where, :, :, inside]
        v = caches[1].view(pages, heads, page // x, size, x)[where, :, inside // x, :, inside % x]
        return [
            Pair(k.reshape(tokens, heads, size), widen(to_fp8(key)), 0),
            Pair(v, widen(to_fp8(value)), 0),
        ]

    return Job(run, judge, tokens * heads)


@case("reshape_and_cache_flash (fp8)")
def reshape_cache(programs: int) -> Job:
    module = import_module(OPS + "triton_reshape_and_cache_flash")
    module._is_supported_kv_cache_dtype = lambda name: True
    heads, size, page = 2, 64, 16
    pages = -(-programs // page) + 1
    k, v = rand(programs, heads, size, seed=62), rand(programs, heads, size, seed=63)
    generator = torch.Generator().manual_seed(64)
    slots = torch.randperm(pages * page, generator=generator)[:programs]
    kinds = to_fp8(torch.zeros(1)).dtype
    caches = [torch.zeros(pages, page, heads, size).to(kinds) for _ in range(2)]
    scale = torch.tensor([0.5]), torch.tensor([2.0])

    def run() -> None:
        module.triton_reshape_and_cache_flash(k, v, *caches, slots, "fp8", *scale)

    def judge() -> list[Pair]:
        pairs = []
        for x, cache, s in zip((k, v), caches, scale, strict=True):
            want = widen(to_fp8(x.float() / s))
            pairs.append(Pair(cache.view(-1, heads, size)[slots], want, 0))
        return pairs

    return Job(run, judge, programs)
