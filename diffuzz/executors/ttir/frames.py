"""The values of the programs that are active at a point of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from diffuzz.executors.ttir.sums import Sum
from diffuzz.executors.ttir.values import merge, pick

Value = Tensor | Sum


class Frame:
    """Values by SSA name for a set of programs.

    ``pids`` are the linear ids of the active programs. A frame for part of its parent's programs
    has ``index``, their positions among the parent's; values it does not have itself are taken
    from the parent and cut down on first use. ``frame[name]`` is always a tensor; :meth:`raw`
    leaves an address in its parts.
    """

    __slots__ = ("index", "parent", "pids", "programs", "values")

    def __init__(self, pids: Tensor, parent: Frame | None = None, index: Tensor | None = None):
        self.pids = pids
        self.programs = pids.shape[0]
        self.parent = parent
        self.index = index
        self.values: dict[str, Value] = {}

    def part(self, index: Tensor) -> Frame:
        """A frame for the programs at positions ``index``."""
        return Frame(self.pids.index_select(0, index), self, index)

    def child(self) -> Frame:
        """A frame for the same programs whose values do not outlive it."""
        return Frame(self.pids, self)

    def raw(self, name: str) -> Value:
        value = self.values.get(name)
        if value is not None:
            return value
        if self.parent is None:
            raise KeyError(name)
        value = self.parent.raw(name)
        if self.index is not None:
            value = self.values[name] = picked(value, self.index)
        return value

    def __getitem__(self, name: str) -> Tensor:
        value = self.values.get(name)
        if value is None:
            value = self.raw(name)
        if isinstance(value, Sum):
            value = self.values[name] = value.total()
        return value


def picked(value: Value, index: Tensor) -> Value:
    """Rows ``index`` of the program axis; a uniform value stays as it is."""
    return value.picked(index) if isinstance(value, Sum) else pick(value, index)


def tensor(value: Value) -> Tensor:
    """The value as a tensor, an address put together."""
    return value.total() if isinstance(value, Sum) else value


def merged(programs: int, parts: Sequence[tuple[Tensor, Value]]) -> Tensor:
    """One value from ``(positions, value)`` parts that together cover all ``programs``."""
    return merge(programs, [(at, tensor(v)) for at, v in parts])
