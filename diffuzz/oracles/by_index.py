"""Hypotheses about places: elements taken from beside, dimensions swapped, rows elsewhere."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import torch
from torch import Tensor

from diffuzz.oracles.parts import Move

SHIFTS = (1, 2, 4, 8, 16, 32, 64)
Shape = tuple[int, ...]


def moves(shape: Shape) -> list[Move]:
    """Shifts along each dimension (by one first) and pairs of dimensions swapped."""
    found = []
    for distance in SHIFTS:
        for dim, size in enumerate(shape):
            if distance < size:
                found += [_shift(shape, dim, distance), _shift(shape, dim, -distance)]
    return found + _swaps(shape)


def _shift(shape: Shape, dim: int, distance: int) -> Move:
    where = "before" if distance > 0 else "after"
    text = f"taken from {abs(distance)} {where} along dimension {dim} (size {shape[dim]})"
    return Move(
        f"shift-dim{dim}",
        text,
        500 + abs(distance),
        combines=abs(distance) == 1,
        source=partial(_shifted, shape, dim, distance),
    )


def _swaps(shape: Shape) -> list[Move]:
    found = []
    wide = [d for d, size in enumerate(shape) if size > 1]
    for first, second in combinations(wide, 2):
        text = f"with dimensions {first} and {second} swapped"
        key = f"swapped-dims-{first}-{second}"
        found.append(Move(key, text, 570, source=partial(_swapped, shape, first, second)))
        if shape[first] != shape[second]:
            text = f"read with dimensions {first} and {second} swapped"
            found.append(Move(key, text, 571, source=partial(_unswapped, shape, first, second)))
    return found


def _strides(shape: Shape) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def _shifted(shape: Shape, dim: int, distance: int, at: Tensor) -> tuple[Tensor, Tensor]:
    step, size = _strides(shape)[dim], shape[dim]
    source = (at // step) % size - distance
    known = (source >= 0) & (source < size)
    return torch.where(known, at - distance * step, at), known


def _relabel(shape: Shape, order: list[int], at: Tensor) -> Tensor:
    """Flat positions in ``shape`` of the elements at ``at`` of its transpose by ``order``."""
    own = _strides(shape)
    turned = tuple(shape[d] for d in order)
    source = torch.zeros_like(at)
    for dim, step, size in zip(order, _strides(turned), turned, strict=True):
        source += (at // step) % size * own[dim]
    return source


def _order(rank: int, first: int, second: int) -> list[int]:
    order = list(range(rank))
    order[first], order[second] = second, first
    return order


def _swapped(shape: Shape, first: int, second: int, at: Tensor) -> tuple[Tensor, Tensor]:
    source = _relabel(shape, _order(len(shape), first, second), at)
    return source, torch.ones_like(at, dtype=torch.bool)


def _unswapped(shape: Shape, first: int, second: int, at: Tensor) -> tuple[Tensor, Tensor]:
    order = _order(len(shape), first, second)
    source = _relabel(tuple(shape[d] for d in order), order, at)
    return source, torch.ones_like(at, dtype=torch.bool)
