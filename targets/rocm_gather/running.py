"""Laying out the cache and calling vLLM's code. Runs in the worker, on the executor's device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from diffuzz.arch import Arch
from diffuzz.calling import call
from diffuzz.case import Case
from diffuzz.errors import CannotTell
from diffuzz.numerics.poison import poison
from diffuzz.target import Inputs

from .cases import GUARD_ROWS, PADDING, cache_format, model_format
from .declared import block_axis, declared_cache, split


def run_gather(
    code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
) -> dict[str, Tensor]:
    """Gather from a cache laid out here. Outputs: ``key``, ``value`` and their guard rows."""
    fmt = cache_format(case, arch)
    pages = [inputs[f"{name}_codes"].view(fmt.dtype) for name in ("k", "v")]
    if case["layout"] == "SHUFFLE":
        caches = _shuffled(*pages)
    elif case["memory"] == "padded":
        caches = (_padded(pages[0]), _padded(pages[1]))
    elif case["memory"] == "declared":
        raw = declared_cache(code, case, inputs, pages[0].dtype, pages[0].device)
        caches = split(code, case, raw)
        for cache, page in zip(caches, pages, strict=True):
            _bytes(cache).copy_(_bytes(page))
    else:
        caches = (pages[0], pages[1])
    return _gather(code, case, inputs, caches)


def run_round_trip(
    code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
) -> dict[str, Tensor]:
    """Write with vLLM's shuffle kernel, then gather. Adds ``spare_blocks``: the raw bytes of
    blocks that no token maps to, which must stay poisoned."""
    if code.get("write") is None:
        raise CannotTell("no shuffle write kernel")
    fmt = cache_format(case, arch)
    raw = declared_cache(code, case, inputs, fmt.dtype, inputs["key"].device)
    caches = split(code, case, raw)
    scales = _scales(case, inputs, raw.device)
    call(
        code["write"],
        {
            "key": _strided(inputs["key"]),
            "value": _strided(inputs["value"]),
            "key_cache": caches[0],
            "value_cache": caches[1],
            "slot_mapping": inputs["slots"],
            "kv_cache_dtype": "fp8" if case["cache"] == "fp8" else "auto",
            "k_scales": scales[0],
            "v_scales": scales[1],
        },
    )
    outputs = _gather(code, case, inputs, caches)
    spare = ~inputs["reached"].any(dim=1)
    outputs["spare_blocks"] = _bytes(raw).movedim(block_axis(raw, inputs), 0)[spare].flatten(1)
    return outputs


def _gather(
    code: Mapping[str, Any], case: Case, inputs: Inputs, caches: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    tokens = len(inputs["token_to_batch"])
    shape = (tokens + GUARD_ROWS, case["num_heads"], case["head_size"])
    key, value = (
        poison(torch.empty(shape, dtype=model_format(case).dtype, device=caches[0].device))
        for _ in range(2)
    )
    k_scales, v_scales = _scales(case, inputs, key.device)
    call(
        code["gather"],
        {
            "key_cache": caches[0],
            "value_cache": caches[1],
            "key": key,
            "value": value,
            "block_tables": inputs["block_table"],
            "k_scales": k_scales,
            "v_scales": v_scales,
            "cu_seqlens_kv": inputs["cu_seqlens"],
            "token_to_batch": inputs["token_to_batch"],
            "seq_starts": inputs["starts"],
            "dequant": case["cache"] == "fp8",
            "kv_cache_layout": case["layout"],
            "total_tokens": tokens,
        },
    )
    return {
        "key": key[:tokens],
        "value": value[:tokens],
        "key_guard": key[tokens:],
        "value_guard": value[tokens:],
    }


def _scales(case: Case, inputs: Inputs, device: torch.device) -> tuple[Tensor, Tensor]:
    """One float32 scale a tensor for NHD; for SHUFFLE ones a block, head and slot."""
    if case["layout"] == "SHUFFLE":
        shape = (inputs["num_blocks"], case["num_heads"], case["page_size"])
        return torch.ones(shape, device=device), torch.ones(shape, device=device)
    return (
        torch.tensor(case["k_scale"], dtype=torch.float32, device=device),
        torch.tensor(case["v_scale"], dtype=torch.float32, device=device),
    )


def _bytes(tensor: Tensor) -> Tensor:
    """The same memory as integers: copies of fp8 NaNs must keep their bits."""
    return tensor.view(torch.uint8 if tensor.element_size() == 1 else torch.int16)


def _strided(rows: Tensor) -> Tensor:
    """Rows as a slice of a wider tensor: keys and values are views of one fused projection."""
    tokens, heads, size = rows.shape
    wide = poison(torch.empty((tokens, heads * 2, size), dtype=rows.dtype, device=rows.device))
    view = wide[:, :heads]
    _bytes(view).copy_(_bytes(rows))
    return view


def _padded(pages: Tensor) -> Tensor:
    blocks = pages.shape[0]
    content = pages[0].numel()
    flat = poison(torch.empty((blocks, content + PADDING), dtype=pages.dtype, device=pages.device))
    view = flat[:, :content].view(pages.shape)
    _bytes(view).copy_(_bytes(pages))
    return view


def _shuffled(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The SHUFFLE layout, in tensors whose shape still reads NHD, as the backend passes them.

    K: ``[blocks, heads, head_size // x, page_size, x]``; V: ``[blocks, heads, page_size // x,
    head_size, x]``, with ``x`` elements to 16 bytes.
    """
    blocks, page, heads, size = key.shape
    x = 16 // key.element_size()
    shuffled_key = _bytes(key).view(blocks, page, heads, size // x, x).permute(0, 2, 3, 1, 4)
    shuffled_value = _bytes(value).view(blocks, page // x, x, heads, size).permute(0, 3, 1, 4, 2)
    return (
        shuffled_key.contiguous().view(key.dtype).view(key.shape),
        shuffled_value.contiguous().view(value.dtype).view(value.shape),
    )
