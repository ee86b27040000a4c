"""The cache as the backend itself declares it at a revision: shape, memory order, K and V views.

Over time the declaration has been a shape (``get_kv_cache_shape``), and then a spec the backend
customises with a list of memory layouts it supports. K and V have been halves of an axis of
length 2, of the last axis, or separate head slots.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from diffuzz.calling import call
from diffuzz.case import Case
from diffuzz.errors import CannotTell
from diffuzz.numerics.poison import poison
from diffuzz.target import Inputs


@dataclass(frozen=True)
class Spec:
    """What the backend customises: the fields of vLLM's attention spec it reads or replaces."""

    block_size: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    dtype: torch.dtype
    num_head_slots: int | None = None
    state_content_bytes: int | None = None
    page_size_padded: int | None = None


def set_shuffle(enabled: bool) -> None:
    """Turn the shuffle layout on or off where this revision's code asks for it."""
    switch = sys.modules.get("vllm._aiter_ops")
    if switch is not None:
        switch.rocm_aiter_ops.shuffle = enabled


def declared_cache(
    code: Mapping[str, Any], case: Case, inputs: Inputs, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A poisoned cache of the declared shape, in the declared memory order."""
    set_shuffle(case["layout"] == "SHUFFLE")
    if code.get("cache_shape") is not None:
        shape = call(
            code["cache_shape"],
            {
                "num_blocks": inputs["num_blocks"],
                "block_size": case["page_size"],
                "num_kv_heads": case["num_heads"],
                "head_size": case["head_size"],
                "cache_dtype_str": "fp8" if case["cache"] == "fp8" else "auto",
            },
        )
        return poison(torch.empty(shape, dtype=dtype, device=device))
    if code.get("spec") is None:
        raise CannotTell("the backend declares no cache layout")
    return _by_spec(code, case, inputs, dtype, device)


def _by_spec(
    code: Mapping[str, Any], case: Case, inputs: Inputs, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Logical shape ``[blocks, head slots, page_size, content]``, axes permuted in memory."""
    size = case["head_size"]
    plain = Spec(case["page_size"], case["num_heads"], size, size, dtype)
    spec = call(code["spec"], {"spec": plain})
    content = 2 * size
    if spec.state_content_bytes is not None:
        content = spec.state_content_bytes // dtype.itemsize
    slots = spec.num_head_slots or spec.num_kv_heads
    shape = (inputs["num_blocks"], slots, case["page_size"], content)
    order = (0, 1, 2, 3)
    if code.get("layouts") is not None:
        supported = call(code["layouts"], {})
        chosen = supported[0 if case["declared_layout"] == "preferred" else -1]
        order = chosen.layer_view_order
    memory = poison(torch.empty([shape[axis] for axis in order], dtype=dtype, device=device))
    return memory.permute([order.index(axis) for axis in range(4)])


def split(code: Mapping[str, Any], case: Case, raw: Tensor) -> tuple[Tensor, Tensor]:
    """K and V views ``[num_blocks, page_size, num_heads, head_size]`` of a declared cache.

    By the backend's own method where it has one. Before that the split stood inline in its
    forward pass, and the declared shape says which it was: an axis of length 2 holds K and V, or
    the last axis holds both, head by head.
    """
    if code.get("split") is not None:
        this = SimpleNamespace(head_size=case["head_size"], num_kv_heads=case["num_heads"])
        key, value = code["split"](this, raw)
        return key, value
    if raw.dim() == 5 and raw.shape[0] == 2:
        key, value = raw.unbind(0)
    elif raw.dim() == 5 and raw.shape[1] == 2:
        key, value = raw.unbind(1)
    elif raw.dim() == 4 and raw.shape[-1] == 2 * case["head_size"]:
        key, value = raw.transpose(1, 2).split(case["head_size"], dim=-1)
    else:
        raise CannotTell(f"new cache shape of {raw.dim()} axes")
    return key, value


def block_axis(raw: Tensor, inputs: Inputs) -> int:
    """Which axis of a declared cache counts blocks: the first, or the second behind K and V."""
    return 0 if raw.shape[0] == inputs["num_blocks"] else 1
