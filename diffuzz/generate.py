"""Seed → cases, by Hypothesis, biased to boundaries and inside the target's contract.

Hypothesis draws and de-duplicates; what it draws becomes plain data at once. The stream of cases
is a function of the target's axes, the seed and the Hypothesis version (pinned in
``constraints.txt``): the same seed gives the same cases in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from diffuzz.case import SEED_BITS, Axis, Case, Choice, Int, IntList, Real, make_case
from diffuzz.target import Target

# Of the draws of a numeric axis, this share takes one of its boundaries.
_BOUNDARY_SHARE = 0.5
# Draws repeat, and settle onto each other: ask Hypothesis for this many times the wanted number.
_OVERDRAW = 2


def strategy_of(axis: Axis) -> st.SearchStrategy[Any]:
    """The Hypothesis strategy of one axis."""
    if isinstance(axis, Choice):
        return st.sampled_from((*axis.options, *axis.often))
    if isinstance(axis, Int):
        return _integers(axis.low, axis.high, axis.boundaries)
    if isinstance(axis, IntList):
        items = _integers(axis.low, axis.high, axis.boundaries)
        return st.lists(items, min_size=axis.min_size, max_size=axis.max_size).map(tuple)
    return _reals(axis)


def _integers(low: int, high: int, boundaries: Sequence[int]) -> st.SearchStrategy[int]:
    inside = tuple(b for b in boundaries if low <= b <= high)
    anywhere = st.integers(low, high)
    return st.one_of(st.sampled_from(inside), anywhere) if inside else anywhere


def _reals(axis: Real) -> st.SearchStrategy[float]:
    anywhere = st.floats(
        axis.low, axis.high, width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False
    )
    inside = tuple(b for b in axis.boundaries if axis.low <= b <= axis.high)
    return st.one_of(st.sampled_from((1.0, *inside)), anywhere)


def draw_cases(target: Target, *, count: int, seed: int) -> list[Case]:
    """Return up to ``count`` distinct allowed cases, in the order drawn.

    Fewer come back only when the space holds fewer (Hypothesis found no more). The plainest case
    (every axis at its default, settled) comes first: a run that finds nothing else has at least
    tried the ordinary.
    """
    found: dict[str, Case] = {}

    def keep(values: dict[str, Any], content_seed: int) -> None:
        case = target.settle(make_case(target.name, target.axes, values, content_seed))
        if len(found) < count and target.allowed(case) is None:
            found.setdefault(case.id, case)

    keep({}, 0)
    whole = st.fixed_dictionaries({axis.name: strategy_of(axis) for axis in target.axes})

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count * _OVERDRAW,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(whole, st.integers(0, (1 << SEED_BITS) - 1))
    def collect(values: dict[str, Any], content_seed: int) -> None:
        keep(values, content_seed)

    collect()
    return list(found.values())
