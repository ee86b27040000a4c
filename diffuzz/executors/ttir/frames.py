"""The values of the programs that are active at a point of the kernel."""

from __future__ import annotations

from torch import Tensor

from diffuzz.executors.ttir.values import pick


class Frame:
    """Values by SSA name for a set of programs.

    ``pids`` are the linear ids of the active programs. A frame for part of its parent's programs
    has ``index``, their positions among the parent's; values it does not have itself are taken
    from the parent and cut down on first use.
    """

    __slots__ = ("index", "parent", "pids", "programs", "values")

    def __init__(self, pids: Tensor, parent: Frame | None = None, index: Tensor | None = None):
        self.pids = pids
        self.programs = pids.shape[0]
        self.parent = parent
        self.index = index
        self.values: dict[str, Tensor] = {}

    def part(self, index: Tensor) -> Frame:
        """A frame for the programs at positions ``index``."""
        return Frame(self.pids.index_select(0, index), self, index)

    def child(self) -> Frame:
        """A frame for the same programs whose values do not outlive it."""
        return Frame(self.pids, self)

    def __getitem__(self, name: str) -> Tensor:
        value = self.values.get(name)
        if value is not None:
            return value
        if self.parent is None:
            raise KeyError(name)
        value = self.parent[name]
        if self.index is not None and value.shape[0] != 1:
            value = pick(value, self.index)
            self.values[name] = value
        return value
