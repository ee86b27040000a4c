"""Simpler values of one axis, the boldest first.

Every value yielded is valid for its axis and simpler by the axis's own weight. For a failure that
starts at some value and goes on from there, taking the first move that still fails, again and
again, ends at that value: the last move of each kind is the smallest step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from diffuzz.case import (
    Axis,
    Choice,
    Int,
    IntList,
    Real,
    Value,
    float32,
    shortest32,
    significant_digits,
)

PLAIN_SCALES = (1.0, 2.0, 0.5, 0.9, 0.7, 3.0, 0.3)
FARTHEST_POWER = 16  # powers of two up to this exponent are tried for any other value
MOST_LADDER_DIGITS = 3  # decimals of so many digits are searched for the one nearest to 1


def simpler(axis: Axis, value: Value) -> Iterator[Value]:
    """Values of ``axis`` simpler than ``value``, each once."""
    seen = {value}
    weight = axis.weight(value)
    for move in _moves(axis, value):
        if move not in seen and axis.weight(move) < weight:
            seen.add(move)
            yield move


def _moves(axis: Axis, value: Value) -> Iterator[Value]:
    if isinstance(axis, Choice):
        yield from axis.options[: axis.options.index(value)]
    elif isinstance(axis, Int):
        assert isinstance(value, int)
        plain = axis.default
        assert isinstance(plain, int)
        yield from _integers(value, plain, axis.low, axis.high, axis.boundaries)
    elif isinstance(axis, IntList):
        assert isinstance(value, tuple)
        yield axis.default
        yield from shorter(axis, value)
        yield from _merged(axis, value)
        yield from _plainer_items(axis, value)
    else:
        assert isinstance(value, float)
        yield from _reals(axis, value)


def descend(count: int) -> Iterator[int]:
    """``0``, then ever smaller steps up to ``count - 1``: where to look on a ladder of rungs."""
    at = 0
    while at < count:
        yield at
        at += max(1, (count - at) // 2)


def _integers(
    value: int, plain: int, low: int, high: int, boundaries: Sequence[int]
) -> Iterator[int]:
    yield plain
    yield from sorted((b for b in boundaries if low <= b <= high), key=lambda b: abs(b - plain))
    way = 1 if value > plain else -1
    yield from (plain + way * rung for rung in descend(abs(value - plain)))


# --- lists --------------------------------------------------------------------------------------


def cuts(length: int) -> Iterator[tuple[int, int]]:
    """Stretches ``[start, stop)`` to leave out of a list, long before short, front before back."""
    size = length
    while size >= 1:
        for start in range(0, length - size + 1, size):
            yield start, start + size
        if length % size:
            yield length - size, length
        size = min(size - 1, (size + 1) // 2)


def shorter(axis: IntList, value: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """``value`` without some of its items."""
    for start, stop in cuts(len(value)):
        if len(value) - (stop - start) >= axis.min_size:
            yield value[:start] + value[stop:]


def _merged(axis: IntList, value: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Two neighbours become their sum: what matters may be the total."""
    if len(value) <= axis.min_size:
        return
    for i in range(len(value) - 1):
        both = value[i] + value[i + 1]
        if axis.low <= both <= axis.high:
            yield (*value[:i], both, *value[i + 2 :])


def _plainer_items(axis: IntList, value: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    def lower(item: int) -> Iterator[int]:
        return _integers(item, axis.plain, axis.low, axis.high, axis.boundaries)

    largest = max(value, key=lambda item: abs(item - axis.plain), default=axis.plain)
    for item in lower(largest):
        yield (item,) * len(value)
    for group in sorted(set(value), reverse=True):
        if value.count(group) > 1:
            for item in lower(group):
                yield tuple(item if v == group else v for v in value)
    for rung in descend(min(value, default=axis.low) - axis.low):
        yield tuple(item - min(value) + axis.low + rung for item in value)  # differences kept
    yield tuple(sorted(value, key=lambda item: (abs(item - axis.plain), item < axis.plain)))
    for i, old in enumerate(value):
        for item in lower(old):
            yield (*value[:i], item, *value[i + 1 :])


# --- scales -------------------------------------------------------------------------------------


def _reals(axis: Real, value: float) -> Iterator[float]:
    for move in _real_moves(value):
        if move > 0 and axis.covers(move):
            yield shortest32(move)


def _real_moves(value: float) -> Iterator[float]:
    """Plain ones on both sides; powers of two from 1 towards ``value``, and, for a value that is
    none, those on both sides of 1; then decimals of one digit, of two, and so on."""
    yield from PLAIN_SCALES
    away = abs(math.log2(float32(value)))
    way = 1 if value > 1 else -1
    for rung in descend(math.ceil(away - 1e-9) + 1):
        yield 2.0 ** (way * rung)
    if math.frexp(float32(value))[0] != 0.5:
        for exponent in range(1, FARTHEST_POWER + 1):
            yield 2.0**-exponent
            yield 2.0**exponent
    for digits in range(1, significant_digits(value) + 1):
        yield from _around(value, digits)
        if digits <= MOST_LADDER_DIGITS:
            yield from _decimals(value, digits)


def _around(value: float, digits: int) -> Iterator[float]:
    """``value`` rounded to so many digits: to nearest, towards zero, away from it."""
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    for whole in (round(value / unit), math.floor(value / unit), math.ceil(value / unit)):
        yield float(f"{whole * unit:.{digits - 1}e}") if whole else 0.0


def _decimals(value: float, digits: int) -> Iterator[float]:
    """Decimals of so many digits between 1 and ``value``, of which some are nearer to 1."""
    per_decade = 9 * 10 ** (digits - 1)
    first = 10 ** (digits - 1)
    decade = math.floor(math.log10(value))
    mantissa = value / 10.0 ** (decade - digits + 1)
    rungs = decade * per_decade + (mantissa - first)  # counted from 1, negative below it
    for rung in descend(math.ceil(abs(rungs) - 1e-6)):
        place = rung if value > 1 else -rung
        at_decade, offset = divmod(place, per_decade)
        yield float(f"{first + offset}e{at_decade - digits + 1}")
