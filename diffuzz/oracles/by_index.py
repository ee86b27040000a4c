"""Hypotheses about places: elements taken from beside, dimensions swapped, rows elsewhere."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import torch
from torch import Tensor

from diffuzz.oracles.parts import Move

SHIFTS = (1, 2, 4, 8, 16, 32, 64)
SHAPES = 64
Shape = tuple[int, ...]


@lru_cache(maxsize=SHAPES)
def moves(shape: Shape) -> tuple[Move, ...]:
    """Staying in place, shifts along each dimension (by one first), dimensions swapped."""
    found = [Move(reads=tuple(_in_place(shape)))]
    for distance in SHIFTS:
        for dim, size in enumerate(shape):
            if distance < size:
                found += [_shift(shape, dim, distance), _shift(shape, dim, -distance)]
    return (*found, *_swaps(shape))


@lru_cache(maxsize=SHAPES)
def reads(shape: Shape) -> Tensor:
    """What :func:`moves` of ``shape`` read, as int64 ``[moves, dimensions, 4]``."""
    return torch.tensor([move.reads for move in moves(shape)])


def sources(reads: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """The flat positions that the elements ``at`` came from, and where a move can tell (elsewhere
    the position is the element's own); both ``[moves, elements]``."""
    source = torch.zeros((len(reads), at.numel()), dtype=torch.int64)
    known = torch.ones((len(reads), at.numel()), dtype=torch.bool)
    for dim in range(reads.shape[1]):
        step, size, offset, own = reads[:, dim, :, None].unbind(1)
        index = (at // step) % size - offset
        known &= (index >= 0) & (index < size)
        source += index * own
    return torch.where(known, source, at), known


def _shift(shape: Shape, dim: int, distance: int) -> Move:
    where = "before" if distance > 0 else "after"
    text = f"taken from {abs(distance)} {where} along dimension {dim} (size {shape[dim]})"
    return Move(
        f"shift-dim{dim}",
        text,
        500 + abs(distance),
        combines=abs(distance) == 1,
        reads=tuple(
            (step, size, distance if d == dim else 0, step)
            for d, (step, size, _, _) in enumerate(_in_place(shape))
        ),
    )


def _swaps(shape: Shape) -> list[Move]:
    found = []
    wide = [d for d, size in enumerate(shape) if size > 1]
    for first, second in combinations(wide, 2):
        text = f"with dimensions {first} and {second} swapped"
        key = f"swapped-dims-{first}-{second}"
        order = list(range(len(shape)))
        order[first], order[second] = second, first
        turned = tuple(shape[d] for d in order)
        found.append(Move(key, text, 570, reads=_relabelled(shape, order)))
        if shape[first] != shape[second]:
            text = f"read with dimensions {first} and {second} swapped"
            found.append(Move(key, text, 571, reads=_relabelled(turned, order)))
    return found


def _strides(shape: Shape) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def _in_place(shape: Shape) -> list[tuple[int, int, int, int]]:
    return [(step, size, 0, step) for step, size in zip(_strides(shape), shape, strict=True)]


def _relabelled(shape: Shape, order: list[int]) -> tuple[tuple[int, int, int, int], ...]:
    """Flat positions of its transpose by ``order`` as positions in ``shape``."""
    own = _strides(shape)
    turned = tuple(shape[d] for d in order)
    return tuple(
        (step, size, 0, own[dim])
        for dim, step, size in zip(order, _strides(turned), turned, strict=True)
    )
