"""The parts hypotheses are built from.

A hypothesis about a wrong output is one choice from each of four lists, most of them the plain
one: which tensor was stored (the truth, or a target's idea of what one mistake gives), which
element of it went where, what factor it got, and how it was rounded. One mistake is one choice
that is not plain; a combination of two mistakes is two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from diffuzz.numerics.formats import FloatFormat, Overflow

Step = Literal["round", "truncate", "flush"]


@dataclass(frozen=True)
class Part:
    """``key`` goes into the signature, ``text`` behind "equals the truth"; both empty when plain.

    Lower ``rank`` is the plainer explanation, preferred where the data cannot tell two apart.
    ``combines`` says whether it may be one of two mistakes.
    """

    key: str = ""
    text: str = ""
    rank: int = 0
    combines: bool = True

    @property
    def plain(self) -> bool:
        return not self.key


@dataclass(frozen=True)
class Content(Part):
    """Float64 values, flat, in the output's shape; ``slack`` says whether they have the truth's.

    The slack of other values than the truth is at least ``relative_slack`` of their magnitude.
    ``stated`` tells a target's own hypothesis from a generic one.
    """

    values: Tensor | None = None
    slack: bool = False
    relative_slack: float = 0.0
    narrows: bool = False
    stated: bool = False


@dataclass(frozen=True)
class Move(Part):
    """Which element came from where: for each dimension how its index is read off a flat position
    (stride and size), what is taken from that index, and the stride it has where it came from."""

    reads: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(frozen=True)
class Factor(Part):
    """A uniform factor. ``special`` marks elements it cannot speak for, given truths
    ``[n, elements]`` and output ``[elements]``."""

    value: float = 1.0
    special: Callable[[Tensor, Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Rounding(Part):
    """A rounding before the last one, which may itself be another one.

    ``step`` is what is done before, in the format ``through``, with ``limit`` the magnitude (or
    NaN) that what is beyond its range becomes when rounded. ``fmt`` and ``overflow`` are those of
    the last rounding where they are not the contract's; ``variant`` words what overflow becomes,
    between roundings that have one ``text``.
    """

    step: Step | None = None
    through: FloatFormat | None = None
    limit: float = math.inf
    fmt: FloatFormat | None = None
    overflow: Overflow | None = None
    own_overflow: bool = False
    narrows: bool = False
    variant: str = ""
