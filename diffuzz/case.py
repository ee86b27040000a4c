"""Cases: one choice of inputs for one target, as plain validated data.

A target declares its axes; a case gives each of them a value. Everything generic follows from the
declaration: validation (here), Hypothesis strategies (:mod:`diffuzz.generate`), the order in which
one case is simpler than another (``sort_key``) and the moves that make it simpler
(:mod:`diffuzz.shrink`). The id depends on the values alone, so it is the same on every machine and
in every version of the tool.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diffuzz.errors import CaseError

FLOAT32_END = 3.4028235677973366e38  # from here on, rounding to float32 gives infinity

Value = bool | int | float | str | tuple[int, ...] | None

SEED_BITS = 32


def _fail(axis: str, value: object, wanted: str) -> CaseError:
    shown = repr(value)
    return CaseError(f"{axis}: {shown[:60]} is not {wanted}")


def _distance(value: int, plain: int) -> tuple[float, float]:
    """How far an integer is from the plainest one; of two as far, the greater is plainer."""
    return float(abs(value - plain)), float(value < plain)


def float32(value: float) -> float:
    """``value`` rounded to the nearest float32. Raises OverflowError beyond its range."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def shortest32(value: float) -> float:
    """The shortest decimal that rounds to the same float32 as ``value``."""
    exact = float32(value)
    for digits in range(9):
        short = float(f"{exact:.{digits}e}")
        if float32(short) == exact:
            return short
    return exact


def significant_digits(value: float) -> int:
    """How many decimal digits a number is written with, zeros at either end left out."""
    mantissa = f"{value!r}".lower().partition("e")[0]
    return len(mantissa.replace(".", "").replace("-", "").strip("0"))


@dataclass(frozen=True)
class Choice:
    """One of a few named options, the plainest first (it is the default and shrinks to it).

    ``often`` options are drawn twice as often as the others.
    """

    name: str
    options: tuple[str | bool | int, ...]
    doc: str = ""
    often: tuple[str | bool | int, ...] = ()

    @property
    def default(self) -> Value:
        return self.options[0]

    def check(self, value: object) -> Value:
        for option in self.options:
            if type(value) is type(option) and value == option:
                return option
        raise _fail(self.name, value, f"one of {', '.join(map(str, self.options))}")

    def weight(self, value: Value) -> tuple[float, ...]:
        return (float(self.options.index(value)),)


def Flag(name: str, doc: str = "") -> Choice:  # reads as a declaration in a list of axes
    """A capability or mode flag; off is plainer than on."""
    return Choice(name, (False, True), doc)


@dataclass(frozen=True)
class Int:
    """An integer in ``[low, high]``. ``boundaries`` are drawn more often than their share."""

    name: str
    low: int
    high: int
    boundaries: tuple[int, ...] = ()
    plain: int | None = None
    doc: str = ""

    @property
    def default(self) -> Value:
        return self.low if self.plain is None else self.plain

    def check(self, value: object) -> Value:
        if type(value) is not int or not self.low <= value <= self.high:
            raise _fail(self.name, value, f"an integer in [{self.low}, {self.high}]")
        return value

    def weight(self, value: Value) -> tuple[float, ...]:
        assert isinstance(value, int)
        return _distance(value, self.low if self.plain is None else self.plain)


@dataclass(frozen=True)
class IntList:
    """Between ``min_size`` and ``max_size`` integers in ``[low, high]``, such as lengths."""

    name: str
    low: int
    high: int
    min_size: int
    max_size: int
    boundaries: tuple[int, ...] = ()
    doc: str = ""

    @property
    def plain(self) -> int:
        """The plainest item: 1 where it is in range, since 0 is an edge of its own."""
        return max(self.low, min(1, self.high))

    @property
    def default(self) -> Value:
        return (self.plain,) * max(self.min_size, 1)

    def check(self, value: object) -> Value:
        wanted = (
            f"a list of {self.min_size} to {self.max_size} integers in [{self.low}, {self.high}]"
        )
        if not isinstance(value, (list, tuple)):
            raise _fail(self.name, value, wanted)
        if not self.min_size <= len(value) <= self.max_size:
            raise CaseError(f"{self.name}: {len(value)} entries, not {wanted}")
        for item in value:
            if type(item) is not int or not self.low <= item <= self.high:
                raise _fail(self.name, item, wanted)
        return tuple(value)

    def weight(self, value: Value) -> tuple[float, ...]:
        assert isinstance(value, tuple)
        items = [_distance(item, self.plain) for item in value]
        return (float(len(value)), sum(away for away, _ in items), *(x for i in items for x in i))


@dataclass(frozen=True)
class Real:
    """A positive finite float32 value, such as a scale; 1 is the plainest.

    ``boundaries`` are values worth drawing on purpose. Values are stored as the shortest decimal
    of the float32, so that the file, the id and the tensor agree.
    """

    name: str
    low: float
    high: float
    boundaries: tuple[float, ...] = ()
    doc: str = ""

    @property
    def default(self) -> Value:
        return 1.0

    def check(self, value: object) -> Value:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _fail(self.name, value, "a number")
        if not (0 < value < FLOAT32_END and self.covers(float(value))):
            raise _fail(self.name, value, f"a positive number in [{self.low}, {self.high}]")
        return shortest32(float(value))

    def covers(self, value: float) -> bool:
        """Whether ``value`` is in range once rounded to float32, as the ends are."""
        return float32(self.low) <= float32(value) <= float32(self.high)

    def weight(self, value: Value) -> tuple[float, ...]:
        assert isinstance(value, float)
        mantissa, _ = math.frexp(float32(value))
        if mantissa == 0.5:
            kind, digits = (0.0 if value == 1.0 else 1.0), 0
        else:
            kind, digits = 2.0, significant_digits(value)
        return (kind, float(digits), abs(math.log2(value)), float(value < 1.0), value)


Axis = Choice | Int | IntList | Real


@dataclass(frozen=True)
class Case:
    """One point of a target's input space. ``values`` maps axis name to value, in axis order."""

    target: str
    values: Mapping[str, Value]
    seed: int = 0
    id: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", hashlib.sha256(self.canonical().encode()).hexdigest()[:12])

    def __hash__(self) -> int:
        return hash(self.id)

    def __getitem__(self, axis: str) -> Any:
        return self.values[axis]

    def canonical(self) -> str:
        """The text whose hash is the id: sorted JSON of the values and the seed."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def to_dict(self) -> dict[str, Any]:
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in self.values.items()}
        return {"target": self.target, "seed": self.seed, "values": values}

    def replace(self, **changes: Value) -> Case:
        """The same case with some axes changed (not validated: see :func:`make_case`)."""
        return Case(self.target, {**self.values, **changes}, self.seed)


def make_case(
    target: str, axes: Sequence[Axis], values: Mapping[str, object], seed: object = 0
) -> Case:
    """Validate ``values`` against ``axes`` and return the case.

    Axes that are left out take their default; unknown names, wrong types and values outside an
    axis's range raise :class:`CaseError` naming the axis.
    """
    known = {axis.name: axis for axis in axes}
    for name in values:
        if name not in known:
            raise CaseError(f"{name}: {target} has no such axis; it has {', '.join(known)}")
    if type(seed) is not int or not 0 <= seed < 1 << SEED_BITS:
        raise _fail("seed", seed, f"an integer in [0, 2**{SEED_BITS})")
    checked = {
        name: axis.check(values[name]) if name in values else axis.default
        for name, axis in known.items()
    }
    return Case(target, checked, seed)


def sort_key(case: Case, axes: Sequence[Axis]) -> tuple[Any, ...]:
    """The one total order in which a case is simpler than another.

    Fewer axes away from their default first, then, axis by axis as declared, each axis's own
    weight, then the seed. Weights: an option's place; an integer's distance from the plainest; a
    list's length, the sum of its items' distances, then item by item; for a scale 1, then powers
    of two, then fewer decimal digits, each by nearness to 1. No two cases are equally simple.
    """
    moved = sum(case.values[axis.name] != axis.default for axis in axes)
    weights = tuple(axis.weight(case.values[axis.name]) for axis in axes)
    return (moved, weights, case.seed, case.id)
