"""The address space of a launch, and the checks every access goes through.

Each tensor argument gets a window of 2**40 addresses with its storage in the middle, so that an
address says which argument it was computed from and how far off it is, however wrong the offset.
Two arguments that share a storage have windows of their own onto the same bytes. Tensors on the
``meta`` device are virtual: shape and strides without storage. Their addresses are checked, reads
give 0 and writes are dropped, so 32-bit offset overflow shows without allocating gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.sums import Rows
from diffuzz.executors.ttir.values import RAW, distinct
from diffuzz.executors.ttir.watch import (
    Fault,
    Notice,
    check_poison,
    element_of,
    every_row,
    is_clear_write,
    note_read,
    store_watched,
)
from diffuzz.executors.ttir.windows import (
    MIDDLE,
    WINDOW_BITS,
    Storage,
    Window,
    extent,
    members_of,
)


class Memory:
    """All arguments of a launch."""

    def __init__(
        self,
        poison: Mapping[int, Tensor] | None = None,
        races: bool = True,
        views: bool = True,
    ) -> None:
        self.poison = poison or {}
        self.races = races
        self.views = views
        self.windows: list[Window] = []
        self.may_misalign = False
        self._storages: dict[int, Storage] = {}

    def add(self, argument: str, tensor: Tensor, written: bool) -> int:
        """Give an argument its window; returns the address of its first element."""
        untyped = tensor.untyped_storage()
        key = untyped._cdata if tensor.device.type == "meta" else untyped.data_ptr()
        storage = self._storages.get(key) if key else None
        if storage is None:
            storage = Storage(tensor, self.poison.get(key))
            if key:
                self._storages[key] = storage
        storage.is_written |= written
        size = tensor.element_size()
        first = int(tensor.storage_offset()) * size
        low, high = first, first + extent(tensor) * size
        members = members_of(tensor) if self.views else None
        if not self.views:
            low, high = 0, storage.nbytes
        origin = ((len(self.windows) + 1) << WINDOW_BITS) + MIDDLE
        self.windows.append(Window(argument, storage, origin, low, high, size, members))
        return origin + first

    def address_of(self, real: Tensor) -> Tensor:
        """Addresses here of real addresses (``int_to_ptr``); unknown ones stay as they are."""
        mapped = real
        for window in self.windows:
            start = window.storage.pointer
            inside = (real >= start) & (real < start + max(window.storage.nbytes, 1))
            mapped = torch.where(inside, real - start + window.origin, mapped)
        self.may_misalign = True
        return mapped

    def real_address(self, address: Tensor) -> Tensor:
        """The inverse of :meth:`address_of` (``ptr_to_int``)."""
        mapped = address
        for window in self.windows:
            inside = address >> WINDOW_BITS == window.origin >> WINDOW_BITS
            mapped = torch.where(inside, address - window.origin + window.storage.pointer, mapped)
        return mapped

    # -- accesses; every lane is active

    def load(self, rows: Rows, size: int, fill: int, notice: Notice) -> Tensor:
        """Integers of ``size`` bytes, ``[rows, length]``; ``fill`` where there is no memory."""
        count = rows.starts.shape[0]
        if count == 0:
            return torch.empty((0, rows.length), dtype=RAW[size])
        low, high = (int(x) for x in torch.aminmax(rows.starts))
        window = self._one_window(low, high + (rows.length - 1) * size)
        if window is None:
            return self._load_apart(rows, size, fill, notice)
        if not self._all_in_view(window, rows, low, high, size):
            if rows.length > 1:
                apart = self.load(rows.exploded(size), size, fill, notice)
                return apart.view(count, rows.length)
            return self._load_checked(window, rows, size, fill, notice)
        if window.storage.virtual:
            return torch.zeros((count, rows.length), dtype=RAW[size])
        return self._load_from(window, rows, size, notice)

    def _load_from(self, window: Window, rows: Rows, size: int, notice: Notice) -> Tensor:
        storage = window.storage
        index = element_of(rows.starts, window.origin, size)
        if storage.poison is not None:
            check_poison(window, index, rows, size, notice)
        if self.races and (storage.is_written or storage.owners is not None):
            note_read(window, index, rows, size, notice)
        memory = storage.typed(size)
        if rows.length == 1:
            return memory.index_select(0, index).unsqueeze(1)
        return every_row(memory, rows.length).index_select(0, index)

    def _load_checked(
        self, window: Window, rows: Rows, size: int, fill: int, notice: Notice
    ) -> Tensor:
        """A load of single elements some of which may be outside the argument's view."""
        inside = self._report_outside(window, rows, size, "load", notice)
        storage = window.storage
        if storage.virtual or not bool(inside.any()):
            value = 0 if storage.virtual else fill
            return torch.full((rows.starts.shape[0], 1), value, dtype=RAW[size])
        if bool(inside.all()):
            return self._load_from(window, rows, size, notice)
        lanes = inside.nonzero().squeeze(1)
        result = torch.full((rows.starts.shape[0], 1), fill, dtype=RAW[size])
        result[lanes] = self._load_from(window, rows.kept(lanes), size, notice)
        return result

    def _load_apart(self, rows: Rows, size: int, fill: int, notice: Notice) -> Tensor:
        """A load whose lanes go to several arguments, or to none."""
        single = rows.exploded(size)
        result = torch.full((single.starts.shape[0], 1), fill, dtype=RAW[size])
        for lanes in self._reachable(single, size, "load", notice):
            part = single.kept(lanes)
            result[lanes] = self.load(part, size, fill, notice)
        return result.view(rows.starts.shape[0], rows.length)

    def store(self, rows: Rows, values: Tensor, size: int, notice: Notice) -> None:
        """Write integers of ``size`` bytes; ``values`` is ``[rows, length]``."""
        if rows.starts.shape[0] == 0:
            return
        low, high = (int(x) for x in torch.aminmax(rows.starts))
        window = self._one_window(low, high + (rows.length - 1) * size)
        if window is not None and self._all_in_view(window, rows, low, high, size):
            if not window.storage.virtual:
                self._store_to(window, rows, values, size, notice)
            return
        single, values = rows.exploded(size), values.reshape(-1, 1)
        if window is None:
            for lanes in self._reachable(single, size, "store", notice):
                self.store(single.kept(lanes), values[lanes], size, notice)
            return
        inside = self._report_outside(window, single, size, "store", notice)
        if not window.storage.virtual and bool(inside.any()):
            lanes = inside.nonzero().squeeze(1)
            kept = single.kept(lanes)
            self._store_to(window, kept, values[lanes], size, notice)

    def _store_to(
        self, window: Window, rows: Rows, values: Tensor, size: int, notice: Notice
    ) -> None:
        storage = window.storage
        index = element_of(rows.starts, window.origin, size)
        memory = storage.typed(size)
        if not self.races or is_clear_write(window, index, rows, size):
            _write_rows(memory, index, rows.length, values)
        else:
            store_watched(window, memory, rows, values, size, notice)
        if storage.poison is not None:
            every_byte = torch.arange(rows.length * size)
            storage.poison[(index * size).unsqueeze(1) + every_byte] = False

    def update(
        self, rows: Rows, size: int, notice: Notice, combine: Callable[[Tensor], Tensor]
    ) -> None:
        """Atomically replace the integers at distinct addresses by ``combine`` of them."""
        address = rows.starts
        low, high = (int(x) for x in torch.aminmax(address))
        window = self._one_window(low, high)
        if window is None:
            raise Unsupported("atomic operation across several tensors")
        storage = window.storage
        inside = None
        if not self._all_in_view(window, rows, low, high, size):
            inside = self._report_outside(window, rows, size, "atomic", notice)
        if storage.virtual or not storage.nbytes:
            combine(torch.zeros(address.shape, dtype=RAW[size]))
            return
        if inside is not None:
            address = torch.where(inside, address, window.origin)
        index = element_of(address, window.origin, size)
        if storage.poison is not None:
            check_poison(window, index, rows, size, notice)
        memory = storage.typed(size)
        after = combine(memory.index_select(0, index))
        if inside is not None:
            index, after = index[inside], after[inside]
        memory[index] = after

    # -- the checks

    def _one_window(self, low: int, high: int) -> Window | None:
        at = low >> WINDOW_BITS
        if at != high >> WINDOW_BITS or not 1 <= at <= len(self.windows):
            return None
        return self.windows[at - 1]

    def _all_in_view(self, window: Window, rows: Rows, low: int, high: int, size: int) -> bool:
        origin = window.origin
        if low < origin + window.low or high + rows.length * size > origin + window.high:
            return False
        if self.may_misalign and size > 1 and bool(((rows.starts - origin) & (size - 1)).any()):
            return False
        return window.members is None or window.members.hold(
            rows.starts - (origin + window.low), rows.length * size
        )

    def _report_outside(
        self, window: Window, rows: Rows, size: int, kind: str, notice: Notice
    ) -> Tensor:
        """Report single elements outside the view; returns which are inside the storage."""
        offset = rows.starts - window.origin
        bad = (offset < window.low) | (offset + size > window.high)
        if window.members is not None:
            bad |= ~window.members.each(offset - window.low)
        inside = (offset >= 0) & (offset + size <= window.storage.nbytes)
        if self.may_misalign and size > 1:
            odd = (offset & (size - 1)) != 0
            if bool(odd.any()):
                bad, kind = odd, f"misaligned {kind}"
                inside &= ~odd
        if bool(bad.any()):
            lanes = bad.nonzero().squeeze(1)
            # The lane furthest off tells most.
            worst = int(lanes[(offset[lanes] - window.low).abs().argmax()])
            message = (
                f"{kind} of {size} bytes at {window.describe(int(offset[worst]))}"
                f" of argument '{window.argument}'; {len(distinct(offset[lanes]))} elements"
            )
            notice(Fault("out-of-bounds", message, window.argument, int(rows.owner()[worst])))
        return inside

    def _reachable(self, rows: Rows, size: int, kind: str, notice: Notice) -> Iterator[Tensor]:
        """Positions of the lanes of each window; lanes of none are reported."""
        ids = rows.starts >> WINDOW_BITS
        for i in distinct(ids).tolist():
            lanes = (ids == i).nonzero().squeeze(1)
            if 1 <= i <= len(self.windows):
                yield lanes
            else:
                message = f"{kind} of {size} bytes at an address outside every argument"
                notice(Fault("out-of-bounds", message, "", int(rows.owner()[lanes[0]])))


def _write_rows(memory: Tensor, index: Tensor, length: int, values: Tensor) -> None:
    if length == 1:
        memory[index] = values.reshape(-1)
        return
    first = int(index[0]) % length
    offset = index - first
    if bool((offset % length == 0).all()):
        # Rows on a common grid are copied whole.
        count = (memory.shape[0] - first) // length
        grid = memory[first : first + count * length].view(count, length)
        grid.index_copy_(0, offset // length, values)
    else:
        memory[index.unsqueeze(1) + torch.arange(length)] = values
