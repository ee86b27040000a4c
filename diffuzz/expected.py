"""What is right for one output: a float64 truth and what the arithmetic may cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from diffuzz.numerics.formats import FloatFormat, Overflow


@dataclass(frozen=True)
class Expected:
    """The right answer for one output, and the exact set of results that count as right.

    ``value`` is the truth in float64, shape of the output as judged. ``slack`` (same shape, >= 0,
    float64) bounds the error of the intermediate arithmetic in absolute terms, before the last
    rounding; it is derived from the formats and the number of operations, never fitted. A result
    is right when it lies between the roundings of ``value - slack`` and ``value + slack`` to
    ``fmt`` (rounding is monotone, so every legal evaluation order lands there). With slack 0 only
    the correctly rounded truth is right.

    ``overflow`` is what the contract says a magnitude beyond the format becomes; None means the
    contract is silent, and infinity, NaN and the largest finite value are all right there.

    ``exact`` marks elements that must keep the bits of ``value`` instead (copied data, memory
    that must stay untouched); the output is then compared as raw codes. ``care`` masks elements
    that are judged at all (padding that the contract leaves open is False). The output itself has
    ``fmt.dtype``, or is uint8 where ``fmt`` has 8 bits.

    ``hypotheses`` lists what this output would hold had one thing gone wrong, by name: the target
    knows its scales, pages and strides, so it supplies those transformations of the truth; the
    explainers add the ones that need only ``value`` and ``fmt``.
    """

    value: Tensor
    fmt: FloatFormat
    slack: Tensor | None = None
    overflow: Overflow | None = "inf"
    exact: Tensor | None = None
    care: Tensor | None = None
    hypotheses: dict[str, Callable[[], Tensor]] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpectedBits:
    """An output judged bit by bit: integers, copied bytes, memory that must stay untouched.

    ``bits`` has the output's own dtype and shape; ``care`` as in :class:`Expected`. ``meaning``
    finishes the sentence "changed ...", such as "a cache slot no token maps to".
    """

    bits: Tensor
    care: Tensor | None = None
    meaning: str = ""
