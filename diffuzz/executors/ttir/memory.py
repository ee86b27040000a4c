"""The address space of a launch, and the checks every access goes through.

Each tensor argument gets a window of 2**40 addresses with its storage in the middle, so that an
address says which argument it was computed from and how far off it is, however wrong the offset.
Two arguments that share a storage have windows of their own onto the same bytes. Tensors on the
``meta`` device are virtual: shape and strides without storage. Their addresses are checked, reads
give 0 and writes are dropped, so 32-bit offset overflow shows without allocating gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.executors.ttir.shadow import Clash, Owners, read_clash, write_clash
from diffuzz.executors.ttir.values import RAW, distinct
from diffuzz.executors.ttir.windows import (
    MIDDLE,
    WINDOW_BITS,
    Storage,
    Window,
    extent,
    has_gaps,
    members_of,
)


@dataclass(frozen=True)
class Fault:
    """Something the sanitizer saw. ``lane`` is the flat position of the first bad lane, ``lanes``
    how many there are; ``programs`` linear ids where the fault itself knows them."""

    kind: str
    message: str
    argument: str
    lane: int
    programs: tuple[int, ...] = ()


Notice = Callable[[Fault], None]


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
        key = id(untyped) if tensor.device.type == "meta" else untyped.data_ptr()
        storage = self._storages.get(key) if key else None
        if storage is None:
            storage = Storage(tensor, self.poison.get(key))
            if key:
                self._storages[key] = storage
        storage.is_written |= written
        if storage.owners is not None:
            storage.owners.track_reads |= written
        size = tensor.element_size()
        first = int(tensor.storage_offset()) * size
        low, high = first, first + extent(tensor) * size
        members = members_of(tensor) if self.views and has_gaps(tensor) else None
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

    # -- accesses; all lanes are active, `pids` broadcasts against `address`

    def load(self, address: Tensor, size: int, pids: Tensor, fill: int, notice: Notice) -> Tensor:
        """Integers of ``size`` bytes at each address; ``fill`` where there is no memory."""
        if address.numel() == 0:
            return torch.empty(address.shape, dtype=RAW[size])
        low, high = (int(x) for x in torch.aminmax(address))
        window = self._one_window(low, high)
        if window is None:
            return self._load_apart(address, size, pids, fill, notice)
        fine = self._within(window, low, high, address, size, "load", notice)
        storage = window.storage
        if storage.virtual:
            return torch.zeros(address.shape, dtype=RAW[size])
        if fine is not None:
            if not storage.nbytes:
                return torch.full(address.shape, fill, dtype=RAW[size])
            address = torch.where(fine, address, window.origin)
            low, high = (int(x) for x in torch.aminmax(address))
        index = _element(address, window.origin, size)
        flat = index.reshape(-1)
        if storage.poison is not None:
            self._check_poison(window, flat, size, notice)
        if self.races and (storage.is_written or storage.owners is not None):
            ends = (low - window.origin) // size, (high - window.origin) // size
            self._note(
                window,
                size,
                notice,
                lambda o, i, p, lo, hi: read_clash(o, i, p, lo, hi),
                index,
                pids,
                ends,
            )
        got = storage.typed(size).index_select(0, flat).view(address.shape)
        return got if fine is None else torch.where(fine, got, torch.tensor(fill, dtype=got.dtype))

    def store(
        self, address: Tensor, values: Tensor, size: int, pids: Tensor, notice: Notice
    ) -> None:
        """Write integers of ``size`` bytes; 1-D ``address``, ``values`` and ``pids``."""
        if address.numel() == 0:
            return
        low, high = (int(x) for x in torch.aminmax(address))
        window = self._one_window(low, high)
        if window is None:
            for lanes in self._reachable(address, size, "store", notice):
                self.store(address[lanes], values[lanes], size, pids[lanes], _relane(notice, lanes))
            return
        fine = self._within(window, low, high, address, size, "store", notice)
        storage = window.storage
        if storage.virtual:
            return
        if fine is not None:
            address, values, pids = address[fine], values[fine], pids[fine]
            if not address.numel():
                return
            low, high = (int(x) for x in torch.aminmax(address))
        index = _element(address, window.origin, size)
        memory = storage.typed(size)
        if not self.races:
            memory[index] = values
        else:
            ends = (low - window.origin) // size, (high - window.origin) // size
            self._store_watched(window, memory, index, values, pids, ends, size, notice)
        if storage.poison is not None:
            for byte in range(size):
                storage.poison[index * size + byte] = False

    def update(
        self,
        address: Tensor,
        size: int,
        notice: Notice,
        combine: Callable[[Tensor], Tensor],
    ) -> None:
        """Atomically replace the integers at distinct addresses by ``combine`` of them."""
        low, high = (int(x) for x in torch.aminmax(address))
        window = self._one_window(low, high)
        if window is None:
            raise ValueError("atomic operation across arguments")
        fine = self._within(window, low, high, address, size, "atomic", notice)
        storage = window.storage
        if storage.virtual or not storage.nbytes:
            combine(torch.zeros(address.shape, dtype=RAW[size]))
            return
        if fine is not None:
            address = torch.where(fine, address, window.origin)
        index = _element(address, window.origin, size)
        if storage.poison is not None:
            self._check_poison(window, index, size, notice)
        memory = storage.typed(size)
        before = memory.index_select(0, index)
        after = combine(before)
        if fine is not None:
            index, after = index[fine], after[fine]
        memory[index] = after

    # -- the checks

    def _one_window(self, low: int, high: int) -> Window | None:
        at = low >> WINDOW_BITS
        if at != high >> WINDOW_BITS or not 1 <= at <= len(self.windows):
            return None
        return self.windows[at - 1]

    def _within(
        self,
        window: Window,
        low: int,
        high: int,
        address: Tensor,
        size: int,
        kind: str,
        notice: Notice,
    ) -> Tensor | None:
        """None if every lane may go ahead, else which lanes may. Reports the others."""
        origin = window.origin
        if self.may_misalign and size > 1:
            odd = ((address - origin) & (size - 1)) != 0
            if bool(odd.any()):
                self._outside(window, odd, address, size, f"misaligned {kind}", notice)
                return ~odd & self._in_storage(window, address, size)
        in_view = low >= origin + window.low and high + size <= origin + window.high
        if in_view and window.members is None:
            return None
        offset = address - origin
        bad = (offset < window.low) | (offset + size > window.high)
        if window.members is not None:
            at = ((offset - window.low) // window.itemsize).clamp(0, len(window.members) - 1)
            bad |= ~window.members[at]
        if not bool(bad.any()):
            return None
        self._outside(window, bad, address, size, kind, notice)
        inside = self._in_storage(window, address, size)
        return None if bool(inside.all()) else inside

    def _in_storage(self, window: Window, address: Tensor, size: int) -> Tensor:
        offset = address - window.origin
        return (offset >= 0) & (offset + size <= window.storage.nbytes)

    def _outside(
        self, window: Window, bad: Tensor, address: Tensor, size: int, kind: str, notice: Notice
    ) -> None:
        lanes = bad.reshape(-1).nonzero().squeeze(1)
        offset = address.reshape(-1)[lanes] - window.origin
        # The lane furthest from the storage tells most.
        worst = (offset - window.low).abs().argmax()
        message = (
            f"{kind} of {size} bytes at {window.describe(int(offset[worst]))}"
            f" of argument '{window.argument}', {len(lanes)} lanes"
        )
        notice(Fault("out-of-bounds", message, window.argument, int(lanes[worst])))

    def _check_poison(self, window: Window, flat: Tensor, size: int, notice: Notice) -> None:
        poison = window.storage.poison
        assert poison is not None
        bad = poison.index_select(0, flat * size)
        for byte in range(1, size):
            bad = bad | poison.index_select(0, flat * size + byte)
        if bool(bad.any()):
            lane = int(bad.nonzero()[0])
            offset = int(flat[lane]) * size - window.low
            message = (
                f"read of {size} bytes nobody has written, at byte {offset}"
                f" of argument '{window.argument}', {int(bad.sum())} lanes"
            )
            notice(Fault("uninitialised", message, window.argument, lane))

    def _note(
        self,
        window: Window,
        size: int,
        notice: Notice,
        check: Callable[[Owners, Tensor, Tensor, int, int], Clash | None],
        index: Tensor,
        pids: Tensor,
        ends: tuple[int, int],
    ) -> None:
        """Run a race check at the granularity the storage's owners are kept at."""
        owners = window.storage.owners_for(size)
        for part, (sub, low, high) in enumerate(_parts(index, size // owners.size, ends)):
            clash = check(owners, sub, pids, low, high)
            if clash is not None and part == 0:
                self._race(window, clash, owners.size, notice)

    def _race(self, window: Window, clash: Clash, size: int, notice: Notice) -> None:
        message = f"{clash.what}: byte {clash.element * size - window.low} of '{window.argument}'"
        who = (clash.first, clash.second)
        notice(Fault("race", message, window.argument, -1, who))

    def _store_watched(
        self,
        window: Window,
        memory: Tensor,
        index: Tensor,
        values: Tensor,
        pids: Tensor,
        ends: tuple[int, int],
        size: int,
        notice: Notice,
    ) -> None:
        owners = window.storage.owners_for(size)
        ratio = size // owners.size
        near = ends[0] * ratio <= max(owners.written.high, owners.read.high) and (
            (ends[1] + 1) * ratio > min(owners.written.low, owners.read.low)
        )
        if near:
            changes = memory.index_select(0, index) != values
            for sub, low, high in _parts(index, ratio, ends):
                clash = write_clash(owners, sub, changes, pids, low, high)
                if clash is not None:
                    self._race(window, clash, owners.size, notice)
                    break
        memory[index] = values
        lost = memory.index_select(0, index) != values
        if bool(lost.any()):
            self._report_lost(window, index, pids, lost, size, notice)
        for sub, low, high in _parts(index, ratio, ends):
            owners.note_write(sub, pids, low, high)

    def _report_lost(
        self,
        window: Window,
        index: Tensor,
        pids: Tensor,
        lost: Tensor,
        size: int,
        notice: Notice,
    ) -> None:
        """Two lanes of one store wrote different values to one element."""
        lane = int(lost.nonzero()[0])
        rivals = pids[index == index[lane]]
        mine = int(pids[lane])
        other = rivals[rivals != mine]
        if len(other):
            what = "different values written by two programs"
            clash = Clash(what, int(index[lane]), mine, int(other[0]))
        else:
            what = "different values written by two lanes of one program"
            clash = Clash(what, int(index[lane]), mine, mine)
        self._race(window, clash, size, notice)

    def _load_apart(
        self, address: Tensor, size: int, pids: Tensor, fill: int, notice: Notice
    ) -> Tensor:
        """A load whose lanes go to several arguments, or to none."""
        flat = address.reshape(-1)
        flat_pids = pids.expand(address.shape).reshape(-1)
        result = torch.full(flat.shape, fill, dtype=RAW[size])
        for lanes in self._reachable(flat, size, "load", notice):
            result[lanes] = self.load(
                flat[lanes], size, flat_pids[lanes], fill, _relane(notice, lanes)
            )
        return result.view(address.shape)

    def _reachable(self, flat: Tensor, size: int, kind: str, notice: Notice) -> Iterator[Tensor]:
        """Positions of the lanes of each window; lanes of none are reported."""
        for lanes in _groups(flat):
            first = int(flat[lanes[0]])
            if self._one_window(first, first) is None:
                message = f"{kind} of {size} bytes at an address outside every argument"
                notice(Fault("out-of-bounds", message, "", int(lanes[0])))
            else:
                yield lanes


def _element(address: Tensor, origin: int, size: int) -> Tensor:
    offset = address - origin
    return offset if size == 1 else offset >> (size.bit_length() - 1)


def _parts(index: Tensor, ratio: int, ends: tuple[int, int]) -> list[tuple[Tensor, int, int]]:
    """Indices of the ``ratio`` finer elements of each element, with their range."""
    if ratio == 1:
        return [(index, *ends)]
    return [(index * ratio + k, ends[0] * ratio + k, ends[1] * ratio + k) for k in range(ratio)]


def _groups(address: Tensor) -> list[Tensor]:
    """Positions of the lanes of each window."""
    ids = address >> WINDOW_BITS
    return [(ids == i).nonzero().squeeze(1) for i in distinct(ids).tolist()]


def _relane(notice: Notice, lanes: Tensor) -> Notice:
    def renamed(fault: Fault) -> None:
        lane = int(lanes[fault.lane]) if fault.lane >= 0 else fault.lane
        notice(Fault(fault.kind, fault.message, fault.argument, lane, fault.programs))

    return renamed
