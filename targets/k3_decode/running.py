"""Calling ``_decode_concat_cache`` with a plain namespace for ``self``. Runs in the worker."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from diffuzz.arch import Arch
from diffuzz.calling import call
from diffuzz.case import Case
from diffuzz.numerics.formats import FORMATS, widen
from diffuzz.numerics.poison import poison
from diffuzz.target import Inputs

from .cases import DS_MLA_ENTRY, ENTRY, is_per_tensor_fp8, model_format

# Elements between blocks of a padded cache, a multiple of the 16 bytes the kernel moves at once.
PADDING = 64


def run(code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs) -> dict[str, Tensor]:
    """Outputs: ``mqa_q`` as vLLM returned it, and the cache's bytes in three views: ``cache`` or
    ``cache_latent`` (dequantised) and ``cache_rope`` of the inserted entries, ``cache_rest``."""
    tensors = _laid_out(case, inputs)
    cache = _cache(case, inputs, tensors["ql_nope"].device)
    scales = {
        name: torch.tensor(case[name], dtype=torch.float32, device=cache.device)
        for name in ("q_scale", "k_scale")
    }
    layer = SimpleNamespace(
        kv_cache_dtype=case["kv_cache_dtype"],
        kv_cache=cache,
        impl=SimpleNamespace(supports_quant_query_input=case["supports_quant_query_input"]),
        _q_scale=scales["q_scale"],
        _k_scale=scales["k_scale"],
        _q_scale_inv=scales["q_scale"].reciprocal().reshape(1),
        _k_scale_inv=scales["k_scale"].reciprocal().reshape(1),
    )
    query = call(
        code["decode"],
        {
            "self": layer,
            "ql_nope": tensors["ql_nope"],
            "q_pe": tensors["q_pe"],
            "kv_c_normed": tensors["kv_c"],
            "k_pe": tensors["k_pe"].unsqueeze(1),
            "positions": inputs["positions"],
            "cos_sin_cache": inputs["cos_sin"],
            "slot_mapping": inputs["slots"],
        },
    )
    outputs = {"mqa_q": query}
    outputs.update(_cache_outputs(case, arch, inputs, cache))
    for name, tensor in tensors.items():
        outputs[f"input:{name}"] = tensor
    return outputs


def _laid_out(case: Case, inputs: Inputs) -> dict[str, Tensor]:
    """The inputs with the strides the layer gives them.

    ``ql_nope`` comes out of a batched product head-major and is transposed, ``kv_c`` out of a
    normalisation that makes it contiguous; the rotary parts are column slices of wider
    projections when ``memory`` is padded.
    """
    tensors = {}
    for name in ("ql_nope", "q_pe", "kv_c", "k_pe"):
        rows = inputs[name]
        if name == "ql_nope":
            rows = rows.transpose(0, 1).contiguous().transpose(0, 1)
        elif case["memory"] == "padded" and name != "kv_c":
            wide = poison(
                torch.empty((*rows.shape[:-1], rows.shape[-1] + 128), dtype=rows.dtype).to(
                    rows.device
                )
            )
            view = wide[..., : rows.shape[-1]]
            view.copy_(rows)
            rows = view
        tensors[name] = rows
    return tensors


def _cache(case: Case, inputs: Inputs, device: torch.device) -> Tensor:
    """``[num_blocks, block_size, entry]``, poisoned: uint8 when quantised, as vLLM stores it."""
    if case["kv_cache_dtype"] == "fp8_ds_mla":
        entry, dtype = DS_MLA_ENTRY, torch.uint8
    elif is_per_tensor_fp8(case):
        entry, dtype = ENTRY, torch.uint8
    else:
        entry, dtype = ENTRY, model_format(case).dtype
    shape = (inputs["num_blocks"], case["block_size"], entry)
    if case["memory"] != "padded":
        return poison(torch.empty(shape, dtype=dtype, device=device))
    content = case["block_size"] * entry
    flat = poison(torch.empty((shape[0], content + PADDING), dtype=dtype, device=device))
    return flat[:, :content].view(shape)


def _cache_outputs(case: Case, arch: Arch, inputs: Inputs, cache: Tensor) -> dict[str, Tensor]:
    entries = cache.reshape(-1, cache.shape[-1])
    slots = inputs["slots"]
    written = slots[slots >= 0]
    untouched = torch.ones(len(entries), dtype=torch.bool, device=cache.device)
    untouched[written] = False
    outputs = {"cache_rest": _raw(entries[untouched])}
    rows = entries[written]
    # As attention reads it: in the platform's fp8 flavour.
    fp8 = FORMATS[arch.e4m3].dtype
    if case["kv_cache_dtype"] == "fp8_ds_mla":
        scale = rows[:, 512:528].contiguous().view(torch.float32)
        codes = widen(rows[:, :512].contiguous().view(fp8))
        latent = codes * widen(scale).repeat_interleave(128, dim=1)
        outputs["cache_latent"] = latent.to(torch.float32)
        outputs["cache_rope"] = rows[:, 528:].contiguous().view(model_format(case).dtype)
    elif is_per_tensor_fp8(case):
        outputs["cache"] = rows.contiguous().view(fp8)
    else:
        outputs["cache"] = rows
    return outputs


def _raw(tensor: Tensor) -> Tensor:
    return tensor.view(torch.int16) if tensor.element_size() == 2 else tensor
