"""What the contract of an op leaves open, and so differs between revisions and compilers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """``contraction`` is how ``a*b - c*d`` and ``a*d + b*c`` are evaluated in float32: ``none``
    rounds each product (host compilers without contraction), ``nvcc`` is
    ``fma(a, b, -(c*d))`` and ``fma(b, c, a*d)`` (what nvcc 13 emits for sm_90 by default).

    ``tile_scale`` is how the scale of a tile of the block-scaled cache comes from its largest
    magnitude: ``absmax`` divides by the format's limit, ``power-of-two`` rounds that up.
    """

    contraction: Literal["none", "nvcc"] = "none"
    tile_scale: Literal["absmax", "power-of-two"] = "absmax"
