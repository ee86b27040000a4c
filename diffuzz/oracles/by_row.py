"""A hypothesis about order: whole rows that hold what belongs to other rows.

No fixed transformation of the truth says this, since the order is unknown; it is read off the
output instead. Up to :data:`ROWS` wrong rows are compared with every row of the truth on up to
:data:`COLUMNS` columns, which tells rows of real data apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.oracles.evidence import spread

ROWS = 64
COLUMNS = 32
MIN_COLUMNS = 8
MAX_ROWS = 4096
SAME = 0.99


@dataclass(frozen=True)
class Elsewhere:
    """Rows along ``dim`` hold other rows of the truth; ``row`` holds ``source``, for one."""

    dim: int
    share: float
    row: int
    source: int
    distinct: bool

    @property
    def text(self) -> str:
        said = "in another order" if self.distinct else "taken from other rows"
        return f"with rows along dimension {self.dim} {said} ({self.row} holds {self.source})"


Bounds = Callable[[Tensor], tuple[Tensor, Tensor]]


def rows_elsewhere(
    shape: tuple[int, ...], values: Tensor, wrong: Tensor, bounds: Bounds
) -> Elsewhere | None:
    """``values`` is the flat output and ``wrong`` has flat indices into it; ``bounds`` gives what
    is right at flat indices, rounded.

    Returns the first dimension along which at least 99 % of the wrong rows are other rows.
    """
    for dim, size in enumerate(shape):
        if not 2 <= size <= MAX_ROWS or values.numel() // size < MIN_COLUMNS:
            continue
        found = _along(dim, shape, values, wrong, bounds)
        if found is not None:
            return found
    return None


def _along(
    dim: int, shape: tuple[int, ...], values: Tensor, wrong: Tensor, bounds: Bounds
) -> Elsewhere | None:
    size, step = shape[dim], math.prod(shape[dim + 1 :])
    columns = spread(values.numel() // size, COLUMNS)
    at = columns // step * (size * step) + columns % step + torch.arange(size)[:, None] * step
    suspects = torch.unique(wrong // step % size)
    rows = suspects[spread(suspects.numel(), ROWS)]
    held = values[at[rows]].unsqueeze(1)
    least, most = bounds(at)
    same = ((least <= held) & (held <= most)).double().mean(dim=2) >= SAME
    # A row that fits several rows of the truth says nothing about where it came from.
    telling = same.sum(dim=1) <= 1
    found = same.any(dim=1) & telling
    n_telling = int(telling.sum())
    if n_telling < 2 or n_telling < rows.numel() / 2 or int(found.sum()) < SAME * n_telling:
        return None
    sources = same.to(torch.uint8).argmax(dim=1)[found]
    example, source = int(rows[found][0]), int(sources[0])
    if example == source:
        return None
    distinct = sources.unique().numel() == sources.numel()  # type: ignore[no-untyped-call]
    return Elsewhere(dim, int(found.sum()) / n_telling, example, source, distinct)
