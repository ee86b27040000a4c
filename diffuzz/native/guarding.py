"""Native ops called with everything poisoned that they have no business with.

Of each tensor argument's storage, what lies outside the view; of a paged cache that is written
through a slot mapping, every row that no token maps to. For sanitized processes: an access there
is a report of ASan's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from diffuzz.native.sanitize import poisoned_spans

_SLOTS = ("slot_mapping", "slots")
Interval = tuple[int, int]


class GuardedCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, ops of vLLM's namespaces (``_C``, ``_moe_C``, ...) run guarded."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if "_C" not in func.namespace:
            return func(*args, **kwargs)
        names = [a.name for a in func._schema.arguments]
        tensors = {
            name: value
            for name, value in {**dict(zip(names, args, strict=False)), **kwargs}.items()
            if isinstance(value, Tensor) and value.numel() > 0
        }
        written = {a.name for a in func._schema.arguments if a.alias_info is not None}
        with poisoned_spans(guards(tensors, written)):
            return func(*args, **kwargs)


def guards(tensors: Mapping[str, Tensor], written: set[str]) -> list[Interval]:
    """(address, bytes) of what an op with these arguments must not touch."""
    storages = [t.untyped_storage().data_ptr() for t in tensors.values()]
    found: list[Interval] = []
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        if storages.count(storage.data_ptr()) > 1:
            continue  # what is outside of this view may be inside of another
        allowed = sorted(_allowed(name, tensor, tensors, written))
        position = storage.data_ptr()
        for start, size in [*allowed, (storage.data_ptr() + storage.nbytes(), 0)]:
            if start > position:
                found.append((position, start - position))
            position = max(position, start + size)
    return found


def _allowed(
    name: str, tensor: Tensor, tensors: Mapping[str, Tensor], written: set[str]
) -> Iterator[Interval]:
    slots = next((tensors[s] for s in _SLOTS if s in tensors), None)
    if slots is None or name not in written or "cache" not in name or tensor.dim() != 3:
        yield from runs(tensor)
        return
    block = tensor.shape[1]
    for slot in slots.tolist():
        if 0 <= slot < tensor.shape[0] * block:
            yield from runs(tensor[slot // block, slot % block])


def runs(tensor: Tensor) -> Iterator[Interval]:
    """(address, bytes) of the contiguous runs of ``tensor``."""
    if tensor.is_contiguous():
        yield tensor.data_ptr(), tensor.numel() * tensor.element_size()
        return
    for part in tensor.unbind(0):
        yield from runs(part)
