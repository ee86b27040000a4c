"""Passes: each yields candidates derived from one case, most promising first.

A pass only proposes. Whether a candidate is simpler by ``sort_key``, allowed and still
interesting is the loop's business, so a pass may propose too much. What a pass's docstring says
holds of the final case: no candidate of that kind is both simpler and interesting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from diffuzz.case import Axis, Case, Choice, Int, IntList, Real, Value
from diffuzz.shrink.moves import cuts, simpler

LOW_SEEDS = 16
OTHER_SEEDS = 3
SHORTLIST = 6


@dataclass(frozen=True)
class Space:
    """The cases there are: ``allowed`` says why one is not, ``settle`` moves one to an allowed one
    near it."""

    axes: Sequence[Axis]
    allowed: Callable[[Case], str | None]
    settle: Callable[[Case], Case]

    def moved(self, case: Case) -> list[Axis]:
        """The axes away from their default."""
        return [axis for axis in self.axes if case[axis.name] != axis.default]


Pass = Callable[[Case, Space], Iterator[Case]]


def _reset(case: Case, axes: Sequence[Axis]) -> Case:
    return case.replace(**{axis.name: axis.default for axis in axes})


def _with_seed(case: Case, seed: int) -> Case:
    return Case(case.target, case.values, seed)


def reset_many(case: Case, space: Space) -> Iterator[Case]:
    """No stretch of axes, by halves, can go back to its defaults at once."""
    moved = space.moved(case)
    for start, stop in cuts(len(moved)):
        if stop - start > 1:
            yield _reset(case, moved[start:stop])


def reset_each(case: Case, space: Space) -> Iterator[Case]:
    """No single axis can go back to its default."""
    for axis in space.moved(case):
        yield _reset(case, [axis])


def lower_seed(case: Case, space: Space) -> Iterator[Case]:
    """None of the lowest seeds will do."""
    for seed in range(min(case.seed, LOW_SEEDS)):
        yield _with_seed(case, seed)


def shorten_together(case: Case, space: Space) -> Iterator[Case]:
    """Lists of one length, which belong together as often as not, cannot lose the same items."""
    by_length: dict[int, list[IntList]] = {}
    for axis in space.axes:
        if isinstance(axis, IntList):
            by_length.setdefault(len(case[axis.name]), []).append(axis)
    for length, lists in by_length.items():
        if len(lists) < 2:
            continue
        for start, stop in cuts(length):
            if all(length - (stop - start) >= axis.min_size for axis in lists):
                kept = {a.name: case[a.name][:start] + case[a.name][stop:] for a in lists}
                yield case.replace(**kept)


def _simplify(kind: type[Axis]) -> Pass:
    def simplify(case: Case, space: Space) -> Iterator[Case]:
        for axis in space.axes:
            if isinstance(axis, kind):
                for value in simpler(axis, case[axis.name]):
                    yield case.replace(**{axis.name: value})

    return simplify


shorten_lists = _simplify(IntList)
lower_integers = _simplify(Int)
earlier_options = _simplify(Choice)
simplify_scales = _simplify(Real)


def _shortlist(axis: Axis, value: Value) -> list[Value]:
    """The boldest moves and the smallest one."""
    moves = list(simpler(axis, value))
    return moves[:SHORTLIST] + moves[SHORTLIST:][-1:]


def two_at_once(case: Case, space: Space) -> Iterator[Case]:
    """No two axes that are bound to each other (so that one alone may not move) can both move."""
    for first, second in combinations(space.moved(case), 2):
        for one in _shortlist(first, case[first.name]):
            alone = space.allowed(case.replace(**{first.name: one})) is None
            for other in _shortlist(second, case[second.name]):
                if alone and space.allowed(case.replace(**{second.name: other})) is None:
                    continue
                yield case.replace(**{first.name: one, second.name: other})


def other_seeds(case: Case, space: Space) -> Iterator[Case]:
    """Nothing above works with other contents either: what is smaller holds other values, and a
    failure that needs particular ones may only have lost those."""
    for propose in (reset_each, shorten_lists, lower_integers, earlier_options, simplify_scales):
        for candidate in propose(case, space):
            for seed in range(OTHER_SEEDS):
                if seed != case.seed:
                    yield _with_seed(candidate, seed)


def _extremes(axis: Axis) -> list[Value]:
    if isinstance(axis, Choice):
        return list(axis.options[1:])
    if isinstance(axis, Int):
        return [axis.high, axis.low, *axis.boundaries]
    if isinstance(axis, IntList):
        longest = (axis.high,) * axis.max_size
        return [longest, (axis.plain,) * axis.max_size, (axis.high,) * max(axis.min_size, 1)]
    return [axis.check(v) for v in (2.0, 3.0, axis.high, axis.low) if axis.covers(v)]


def trade(case: Case, space: Space) -> Iterator[Case]:
    """An axis cannot become simpler at the cost of a later one: what fails may be a product or a
    sum of two, to be had with less of the first."""
    moved = space.moved(case)
    for first, second in combinations(moved, 2):
        for value in _extremes(second):
            for move in _shortlist(first, case[first.name]):
                yield case.replace(**{first.name: move, second.name: value})


def exchange(case: Case, space: Space) -> Iterator[Case]:
    """An axis at its default, taken to an extreme, cannot replace what some others do: the same
    failure may be had in a plainer way that small steps do not reach."""
    moved = space.moved(case)
    names = {axis.name for axis in moved}
    subsets = [moved] + [list(c) for size in (2, 1) for c in combinations(moved, size)]
    for axis in space.axes:
        if axis.name not in names:
            for value in _extremes(axis):
                for subset in islice(subsets, 32):
                    yield _reset(case, subset).replace(**{axis.name: value})


PASSES: tuple[tuple[str, Pass], ...] = (
    ("reset many axes", reset_many),
    ("reset an axis", reset_each),
    ("lower the seed", lower_seed),
    ("shorten lists together", shorten_together),
    ("shorten lists", shorten_lists),
    ("lower integers", lower_integers),
    ("take earlier options", earlier_options),
    ("simplify scales", simplify_scales),
    ("move two axes", two_at_once),
    ("try other seeds", other_seeds),
    ("trade between axes", trade),
    ("exchange axes", exchange),
)
