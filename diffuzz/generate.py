"""Seed → cases, by Hypothesis, biased to boundaries and inside the target's contract.

Hypothesis draws and de-duplicates; what it draws becomes plain data at once. The stream of cases
is a function of the target's axes, the seed and the Hypothesis version (pinned in
``constraints.txt``): the same seed gives the same cases in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from diffuzz.case import SEED_BITS, Axis, Case, Choice, Int, IntList, Real, make_case

Allowed = Callable[[Case], "str | None"]

# Of the draws of a numeric axis, this share takes one of its boundaries.
_BOUNDARY_SHARE = 0.5
# Hypothesis may reject or repeat draws: ask for this many times the wanted number at most.
_OVERDRAW = 6


def strategy_of(axis: Axis) -> st.SearchStrategy[Any]:
    """The Hypothesis strategy of one axis."""
    if isinstance(axis, Choice):
        return st.sampled_from(axis.options)
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


def draw_cases(
    target: str, axes: Sequence[Axis], allowed: Allowed, *, count: int, seed: int
) -> list[Case]:
    """Return up to ``count`` distinct allowed cases, in the order drawn.

    Fewer come back only when the space holds fewer (Hypothesis found no more). The plainest case
    (every axis at its default) comes first whenever the contract allows it: a run that finds
    nothing else has at least tried the ordinary.
    """
    found: dict[str, Case] = {}
    plain = make_case(target, axes, {})
    if allowed(plain) is None:
        found[plain.id] = plain
    whole = st.fixed_dictionaries({axis.name: strategy_of(axis) for axis in axes})

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
        if len(found) >= count:
            return
        case = make_case(target, axes, values, content_seed)
        if allowed(case) is None:
            found.setdefault(case.id, case)

    if len(found) < count:
        collect()
    return list(found.values())[:count]
