"""What the contract of an op leaves open, and so differs between revisions and compilers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """``contraction`` is how ``a*b - c*d`` and ``a*d + c*b`` are evaluated in float32: ``none``
    rounds each product (host builds, which do not contract), ``device`` is ``fma(a, b, -(c*d))``
    and ``fma(c, b, a*d)`` for the pair (a, c) turned by (b, d): what nvcc 13 for sm_90 and clang
    for AMD's CDNA emit by default (read from SASS and from GCN assembly).

    ``tile_scale`` is how the scale of a tile of the block-scaled cache comes from its largest
    magnitude: ``absmax`` divides by the format's limit, ``power-of-two`` rounds that up.
    """

    contraction: Literal["none", "device"] = "none"
    tile_scale: Literal["absmax", "power-of-two"] = "absmax"
