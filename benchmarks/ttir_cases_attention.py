"""vLLM's attention kernels (see :mod:`ttir_cases`)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import torch
import ttir_cases
from torch import Tensor
from ttir_cases import OPS, Job, Pair, case, rand


@dataclass(frozen=True)
class Paged:
    """K and V pages ``[pages, page, heads, size]``, each sequence's pages and its length."""

    keys: Tensor
    values: Tensor
    table: Tensor
    lengths: Tensor


def _paged(tokens: list[int], heads: int, size: int, page: int, dtype: torch.dtype) -> Paged:
    """Pages in shuffled order."""
    counts = [-(-t // page) for t in tokens]
    total = sum(counts) + 2
    generator = torch.Generator().manual_seed(13)
    order = torch.randperm(total, generator=generator)
    table = torch.zeros(len(tokens), max(counts), dtype=torch.int32)
    at = 0
    for row, count in enumerate(counts):
        table[row, :count] = order[at : at + count]
        at += count
    keys = rand(total, page, heads, size, seed=14, dtype=dtype)
    values = rand(total, page, heads, size, seed=15, dtype=dtype)
    return Paged(keys, values, table, torch.tensor(tokens))


def _sequence(pages: Tensor, row: Tensor, length: int) -> Tensor:
    """[length, heads, size] of one sequence, float64."""
    page = pages.shape[1]
    used = pages[row[: -(-length // page)].long()].double()
    return used.reshape(-1, *pages.shape[2:])[:length]


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, first: int) -> Tensor:
    """Causal attention of [queries, heads, size]; query i is at position ``first + i``."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) * scale
    where = torch.arange(k.shape[0]) > first + torch.arange(q.shape[0]).unsqueeze(1)
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(where, -torch.inf).softmax(-1), v)


def _decode(programs: int, kv_heads: int) -> Job:
    heads, size, page, splits = 8, 64, 16, 4
    batch = max(programs // (heads * splits), 1)
    module = import_module(OPS + "triton_decode_attention")
    lengths = [37 + 13 * (i % 9) for i in range(batch)]
    cache = _paged(lengths, kv_heads, size, page, ttir_cases.HALF)
    q = rand(batch, heads, size, seed=16)
    out, lse = torch.zeros_like(q), torch.zeros(batch, heads)
    partial = torch.empty(batch, heads, splits, size + 1)
    scale = size**-0.5

    def run() -> None:
        module.decode_attention_fwd(
            q,
            cache.keys,
            cache.values,
            out,
            lse,
            cache.table,
            cache.lengths.int(),
            partial,
            splits,
            scale,
            page,
        )

    def judge() -> list[Pair]:
        rows = [
            attend(
                q[i : i + 1],
                _sequence(cache.keys, cache.table[i], n),
                _sequence(cache.values, cache.table[i], n),
                scale,
                n - 1,
            )
            for i, n in enumerate(lengths)
        ]
        return [Pair(out, torch.cat(rows), 2, 6e-3)]

    return Job(run, judge, batch * heads * splits)


@case("decode_attention, both stages (MHA)")
def decode_mha(programs: int) -> Job:
    return _decode(programs, 8)


@case("decode_attention, both stages (GQA)")
def decode_gqa(programs: int) -> Job:
    return _decode(programs * 4, 2)


@case("unified_attention")
def unified(programs: int) -> Job:
    heads, kv_heads, size, page = 8, 2, 64, 16
    module = import_module(OPS + "triton_unified_attention")
    count = max(programs // (kv_heads * 5), 1)
    queries = [1 + 3 * (i % 5) for i in range(count)]
    lengths = [n + 20 + 11 * (i % 7) for i, n in enumerate(queries)]
    cache = _paged(lengths, kv_heads, size, page, ttir_cases.HALF)
    starts = torch.tensor([0, *queries]).cumsum(0).int()
    q = rand(sum(queries), heads, size, seed=17)
    out, scale = torch.zeros_like(q), size**-0.5

    def run() -> None:
        module.unified_attention(
            q,
            cache.keys,
            cache.values,
            out,
            starts,
            max(queries),
            cache.lengths.int(),
            max(lengths),
            scale,
            True,
            (-1, -1),
            cache.table,
            0,
            None,
            None,
            None,
        )

    def judge() -> list[Pair]:
        rows = []
        for i, n in enumerate(queries):
            k = _sequence(cache.keys, cache.table[i], lengths[i])
            v = _sequence(cache.values, cache.table[i], lengths[i])
            at = int(starts[i])
            rows.append(attend(q[at : at + n], k, v, scale, lengths[i] - n))
        return [Pair(out, torch.cat(rows), 2, 8e-3)]

    return Job(run, judge, kv_heads * (sum(queries) // 4 + count))


@case("prefill attention")
def prefill(programs: int) -> Job:
    heads, size = 4, 64
    count = max(programs // (heads * 2), 1)
    module = import_module(OPS + "triton_prefill_attention")
    lengths = [40 + 9 * (i % 6) for i in range(count)]
    starts = torch.tensor([0, *lengths[:-1]]).cumsum(0).int()
    total = sum(lengths)
    q, k, v = (rand(total, heads, size, seed=s) for s in (18, 19, 20))
    out = torch.zeros_like(q)

    def run() -> None:
        module.context_attention_fwd(
            q, k, v, out, starts, torch.tensor(lengths, dtype=torch.int32), max(lengths)
        )

    def judge() -> list[Pair]:
        rows = []
        for at, n in zip(starts.tolist(), lengths, strict=True):
            part = slice(at, at + n)
            rows.append(attend(q[part], k[part].double(), v[part].double(), size**-0.5, 0))
        return [Pair(out, torch.cat(rows), 2, 8e-3)]

    return Job(run, judge, count * heads)


@case("chunked prefix prefill")
def prefix_prefill(programs: int) -> Job:
    heads, kv_heads, size, page = 4, 2, 64, 16
    count = max(programs // heads, 1)
    module = import_module(OPS + "prefix_prefill")
    queries = [5 + 3 * (i % 4) for i in range(count)]
    lengths = [n + 18 + 7 * (i % 5) for i, n in enumerate(queries)]
    cache = _paged(lengths, kv_heads, size, page, ttir_cases.HALF)
    starts = torch.tensor([0, *queries]).cumsum(0).int()
    q = rand(sum(queries), heads, size, seed=21)
    keys, values = [], []
    for i, n in enumerate(queries):
        keys.append(_sequence(cache.keys, cache.table[i], lengths[i])[-n:])
        values.append(_sequence(cache.values, cache.table[i], lengths[i])[-n:])
    k, v = torch.cat(keys).to(ttir_cases.HALF), torch.cat(values).to(ttir_cases.HALF)
    out, x = torch.zeros_like(q), 8
    # K as [pages, heads, size / x, page, x], V as [pages, heads, size, page].
    pages = cache.keys.shape[0]
    k_pages = cache.keys.view(pages, page, kv_heads, size // x, x).permute(0, 2, 3, 1, 4)
    v_pages = cache.values.permute(0, 2, 3, 1)

    def run() -> None:
        one = torch.ones(1)
        module.context_attention_fwd(
            q,
            k,
            v,
            out,
            "auto",
            k_pages.contiguous(),
            v_pages.contiguous(),
            cache.table,
            starts,
            cache.lengths.int(),
            max(lengths),
            max(queries),
            one,
            one,
        )

    def judge() -> list[Pair]:
        rows = []
        for i, n in enumerate(queries):
            at = int(starts[i])
            rows.append(
                attend(
                    q[at : at + n],
                    _sequence(cache.keys, cache.table[i], lengths[i]),
                    _sequence(cache.values, cache.table[i], lengths[i]),
                    size**-0.5,
                    lengths[i] - n,
                )
            )
        return [Pair(out, torch.cat(rows), 2, 8e-3)]

    return Job(run, judge, count * heads)
