"""Run as a program: the built Kimi-K3 decode ops against their models, output by output.

Arguments: library, arch, and ``absmax`` or ``power-of-two`` (how the revision scales tiles); then
``cuda`` for a library of ``build_gpu``, whose compiler contracts products and sums.
Prints JSON: ``cases``, ``differences`` ({"OUTPUT of OP": elements}) and ``cast``, how many of the
differing fp8 bytes of block-scaled entries are the unscaled value converted to an integer.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor

from diffuzz.arch import get_arch
from diffuzz.native import build_cpu
from diffuzz.native.op_models import Options, kimi_k3

BLOCK, PAGES = 4, 5
AXES = itertools.product(
    (torch.bfloat16, torch.float16),
    ("plain", "fp8", "ds_mla"),
    (False, True),
    (False, True),
    ((1, 1), (3, 2), (7, 17)),
    (1.0, 30.0),
)
EDGES = (0.0, -0.0, 1e-30, 448, 449, 464, 480, -448, 224, 232, 240, 2**-9, 2**-10, 3 * 2**-11)


def inputs(dtype, strided: bool, shape, scale: float, g: torch.Generator) -> dict[str, Tensor]:
    b, h = shape

    def draw(*size: int) -> Tensor:
        values = torch.randn(*size, generator=g) * scale
        places = torch.randperm(values.numel(), generator=g)[: len(EDGES)]
        values.view(-1)[places] = torch.tensor(EDGES)[: len(places)]
        if not strided or (len(size) == 2 and size[-1] == 512):  # kv_c_normed is contiguous
            return values.to(dtype)
        padded = torch.full((*size[:-1], size[-1] + 64), torch.nan, dtype=dtype)
        padded[..., : size[-1]] = values.to(dtype)
        return padded[..., : size[-1]]

    return {
        "ql_nope": draw(b, h, 512),
        "q_pe": draw(b, h, 64),
        "kv_c_normed": draw(b, 512),
        "k_pe": draw(b, 64),
    }


def outputs(kind: str, dtype, strided: bool, b: int, h: int) -> tuple[Tensor, Tensor, Tensor]:
    """(mqa_q, k_cache, its whole storage): poisoned, so that what is not written shows."""
    width = kimi_k3.DS_ENTRY if kind == "ds_mla" else kimi_k3.ENTRY
    cache_type = dtype if kind == "plain" else torch.uint8
    pad = 1 if strided else 0
    base = torch.full((PAGES, BLOCK + pad, width + 16 * pad), 0x5A, dtype=cache_type)
    query = torch.full((b, h, 576), 0x5A, dtype=torch.uint8 if kind == "fp8" else dtype)
    return query, base[:, :BLOCK, :width], base


def on_device(values, device: str):
    return [v.to(device) if isinstance(v, Tensor) else v for v in values]


def run_op(name: str, device: str, args: list, query: Tensor, base: Tensor, rest: list) -> None:
    """Call the op on ``device``; ``query`` and the cache's storage ``base`` are filled here."""
    rest, (q, whole) = on_device(rest, device), on_device((query, base), device)
    cache = whole.as_strided(*rest.pop(0))
    if "fp8" in name:
        q, cache = q.view(torch.float8_e4m3fn), cache.view(torch.float8_e4m3fn)
    getattr(torch.ops._C, name)(*on_device(args, device), q, cache, *rest)
    query.view(torch.uint8).copy_(q.view(torch.uint8))
    base.copy_(whole)


def case(
    arch, options: Options, number: int, axes, device: str
) -> list[tuple[str, Tensor, Tensor, Tensor]]:
    """(name, emulated, modelled, raw values where known) of one case."""
    dtype, kind, rope, strided, (b, h), scale = axes
    g = torch.Generator().manual_seed(number)
    args = inputs(dtype, strided, (b, h), scale, g)
    slots = torch.randperm(BLOCK * PAGES, generator=g)[:b]
    if b > 1:
        slots[number % b] = -1
    angles = torch.randn(50, 32, generator=g)
    table = torch.cat((angles.cos(), angles.sin()), dim=-1)
    tail = (torch.randint(0, 50, (b,), generator=g), table) if rope else (None, None)
    scales = (torch.rand(1, generator=g) * 4, torch.rand(1, generator=g) * 2)
    (q1, c1, b1), (q2, c2, b2) = (outputs(kind, dtype, strided, b, h) for _ in range(2))
    common = {**args, "slot_mapping": slots, "cache_block_size": BLOCK}
    common |= {"position_ids": tail[0], "cos_sin_cache": tail[1]}
    prefix = "fused_kimi_k3_mla_decode_q_concat_"
    rest = [(c1.shape, c1.stride()), slots, BLOCK, *tail]
    if kind == "fp8":
        rest[2:2] = scales
        run_op(f"{prefix}kv_cache_fp8_insert", device, list(args.values()), q1, b1, rest)
        extra = dict(zip(("q_scale_inv", "cache_scale_inv"), scales, strict=True))
        kimi_k3.fp8_insert(arch, options, mqa_q=q2, k_cache=c2, **common, **extra)
    elif kind == "plain":
        run_op(f"{prefix}kv_cache_insert", device, list(args.values()), q1, b1, rest)
        kimi_k3.plain_insert(arch, options, mqa_q=q2, k_cache=c2, **common)
    else:
        run_op(f"{prefix}ds_mla_insert", device, list(args.values()), q1, b1, rest)
        kimi_k3.ds_mla_insert(arch, options, mqa_q=q2, k_cache=c2, **common)
    raw = torch.zeros(PAGES, b1.shape[1], b1.shape[2], dtype=torch.int32)
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            value = args["kv_c_normed"][token].float().to(torch.int32)
            raw[slot // BLOCK, slot % BLOCK, :512] = value
    return [(f"mqa_q of {kind}", q1, q2, q1), (f"cache of {kind}", b1, b2, raw)]


def main(library: str, arch_name: str, tile_scale: str, device: str = "cpu") -> None:
    build_cpu.LoadedLibrary(Path(library))
    arch = get_arch(arch_name)
    options = Options("none" if device == "cpu" else "device", tile_scale)
    differences: Counter[str] = Counter()
    cast = cases = 0
    for number, axes in enumerate(AXES):
        cases += 1
        for name, emulated, modelled, raw in case(arch, options, number, axes, device):
            wide = torch.int16 if emulated.element_size() == 2 else torch.uint8
            wrong = emulated.view(wide) != modelled.view(wide)
            if wrong.any():
                differences[name] += int(wrong.sum())
                if name == "cache of ds_mla":
                    cast += int((wrong & (emulated == (raw & 0xFF).to(torch.uint8))).sum())
    print(json.dumps({"cases": cases, "differences": differences, "cast": cast}))


if __name__ == "__main__":
    main(*sys.argv[1:])
