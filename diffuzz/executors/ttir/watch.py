"""The sanitizer's part in an access: reads of unwritten memory, and races.

Every function takes the window an access goes through and tells what it sees to a notice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.executors.ttir.shadow import WRITE_LANES, WRITE_WRITE, Clash
from diffuzz.executors.ttir.sums import Rows
from diffuzz.executors.ttir.windows import Window


@dataclass(frozen=True)
class Fault:
    """Something the sanitizer saw. ``program`` is a linear program id, None where no single one
    is to blame; ``other`` the second program of a race."""

    kind: str
    message: str
    argument: str
    program: int | None
    other: int | None = None


Notice = Callable[[Fault], None]


def element_of(address: Tensor, origin: int, size: int) -> Tensor:
    offset = address - origin
    return offset if size == 1 else offset >> (size.bit_length() - 1)


def _elements(index: Tensor, length: int, ratio: int, pids: Tensor) -> tuple[Tensor, Tensor]:
    """Every element of rows, in units ``ratio`` times finer, and its program."""
    count = length * ratio
    if count == 1:
        return index, pids
    each = ((index * ratio).unsqueeze(1) + torch.arange(count)).reshape(-1)
    return each, pids.repeat_interleave(count)


def every_row(memory: Tensor, length: int) -> Tensor:
    """View of every run of ``length`` neighbours: row i starts at element i."""
    return memory.as_strided((max(memory.shape[0] - length + 1, 0), length), (1, 1))


def check_poison(window: Window, index: Tensor, rows: Rows, size: int, notice: Notice) -> None:
    poison = window.storage.poison
    assert poison is not None
    unwritten = every_row(poison, rows.length * size).index_select(0, index * size)
    if bool(unwritten.any()):
        row, byte = (int(x) for x in unwritten.nonzero()[0])
        offset = int(index[row]) * size + byte // size * size - window.low
        message = (
            f"read of {size} bytes nobody has written, at byte {offset}"
            f" of argument '{window.argument}'"
        )
        notice(Fault("uninitialised", message, window.argument, int(rows.owner()[row])))


def _race(window: Window, clash: Clash, size: int, notice: Notice) -> None:
    message = f"{clash.what}: byte {clash.element * size - window.low} of '{window.argument}'"
    notice(Fault("race", message, window.argument, clash.first, clash.second))


def note_read(window: Window, index: Tensor, rows: Rows, size: int, notice: Notice) -> None:
    owners = window.storage.owners_for(size)
    ratio, pids = size // owners.size, rows.owner()
    if owners.is_clear_read(index * ratio, rows.length * ratio, pids):
        return
    each = _elements(index, rows.length, ratio, pids)
    clash = None if owners.is_fresh_read(*each) else owners.read_clash(*each)
    if clash is not None:
        _race(window, clash, owners.size, notice)


def is_clear_write(window: Window, index: Tensor, rows: Rows, size: int) -> bool:
    owners = window.storage.owners_for(size)
    ratio = size // owners.size
    return owners.is_clear_write(index * ratio, rows.length * ratio, rows.owner())


def store_watched(
    window: Window,
    memory: Tensor,
    rows: Rows,
    values: Tensor,
    size: int,
    notice: Notice,
) -> None:
    owners = window.storage.owners_for(size)
    single = rows.exploded(size)
    index, pids = element_of(single.starts, window.origin, size), single.owner()
    values = values.reshape(-1)
    ratio = size // owners.size
    fine, fine_pids = _elements(index, 1, ratio, pids)

    def changes(lanes: Tensor) -> Tensor:
        at = lanes // ratio
        return memory.index_select(0, index[at]) != values[at]

    clash = None
    if not owners.is_fresh_write(fine, fine_pids):
        clash = owners.write_clash(fine, fine_pids, changes)
    memory[index] = values
    if clash is None:
        lost = memory.index_select(0, index) != values
        if bool(lost.any()):
            clash = _lost(index * ratio, pids, lost)
    if clash is not None:
        _race(window, clash, owners.size, notice)


def _lost(index: Tensor, pids: Tensor, lost: Tensor) -> Clash:
    """Two lanes of one store wrote different values to one element; the later one stayed."""
    lane = int(lost.nonzero()[0])
    mine = int(pids[lane])
    others = pids[(index == index[lane]) & (pids != mine)]
    if len(others):
        return Clash(WRITE_WRITE, int(index[lane]), mine, int(others[0]))
    return Clash(WRITE_LANES, int(index[lane]), mine, mine)
