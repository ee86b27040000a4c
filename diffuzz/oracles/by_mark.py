"""Elements that hold a mark: output nobody wrote, or memory nobody may read.

Floats of 16 bits and more carry a payload of their own, so one marked element is proof. One-byte
patterns turn up by chance: there, nearly all wrong elements must be marked, or a whole run of rows
up to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from diffuzz.numerics.poison import is_forbidden, is_poison

ENOUGH = 0.99
MIN_BYTES = 8


@dataclass(frozen=True)
class Marked:
    """``at`` marks the elements (bool, the output's shape); ``what`` goes into the signature."""

    what: str
    text: str
    at: Tensor
    count: int


def marked_elements(output: Tensor, wrong: Tensor) -> Iterator[Marked]:
    """What the wrong elements of an output hold that nobody should see there."""
    for test, what, said in (
        (is_poison, "unwritten", "not written"),
        (is_forbidden, "forbidden", "read from memory that must not be read"),
    ):
        holds = test(output)
        at = holds & wrong
        count = int(at.sum())
        if count == 0:
            continue
        region = _region(holds)
        if output.element_size() == 1:
            mostly = count >= ENOUGH * int(wrong.sum())
            if count < MIN_BYTES or not (mostly or region):
                continue
        yield Marked(what, said + region, at, count)


def _region(holds: Tensor) -> str:
    """Where marked elements are, when they are everything or all that follows some index."""
    if bool(holds.all()):
        return " at all"
    for dim in range(holds.dim()):
        lines = holds.movedim(dim, 0).reshape(holds.shape[dim], -1)
        whole = lines.all(dim=1)
        kept = (~whole).nonzero()
        start = int(kept[-1]) + 1 if kept.numel() else 0
        if start < whole.numel() and int(lines[start:].sum()) >= MIN_BYTES:
            return f" from index {start} of dimension {dim} (size {holds.shape[dim]}) on"
    return ""
