"""Which variant to look at next, and how often.

The choice with the most information for its cost: bits gained about the culprit, over the runs
it takes, where the first run of a variant counts ``visit`` runs (it has to be built). A run
repeated until it fails or has passed ``k`` times tells more than ``k`` times a single run would
promise, so plans of several lengths are weighed against each other, not only the next run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffuzz.bisection.belief import Belief, Floats, Ints

REPEATS: Ints = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256])

TINY = 1e-300
LEAST_SCORE = 1e-12  # bits a run; below it is rounding

Mask = NDArray[np.bool_]


def _xlogx(x: Floats) -> Floats:
    return np.asarray(x * np.log2(np.maximum(x, TINY)))


def _entropy_part(total: Floats, sum_xlogx: Floats) -> Floats:
    """``total * H(x / total)`` from the sum of ``x`` and of ``x log2 x``."""
    return _xlogx(total) - sum_xlogx


def gains(belief: Belief, repeats: Ints) -> tuple[Floats, Floats]:
    """Expected bits from running variant ``i`` until it fails or passed ``repeats[k]`` times, and
    the expected number of runs: both ``[k, i]``, for every ``i`` below the first bad one."""
    now = belief.weights
    passed = np.minimum(belief.unsteady_after(repeats), now)
    failed = now - passed
    tail = now.sum() - np.cumsum(now)
    now_xlogx = _xlogx(now)
    tail_xlogx = now_xlogx.sum() - np.cumsum(now_xlogx)
    all_passed = np.cumsum(passed, axis=1) + tail
    some_failed = np.cumsum(failed, axis=1)
    left = _entropy_part(all_passed, np.cumsum(_xlogx(passed), axis=1) + tail_xlogx)
    left += _entropy_part(some_failed, np.cumsum(_xlogx(failed), axis=1))
    gained = _entropy_part(now.sum(), now_xlogx.sum()) - left
    rate = belief.prior.rate(belief.failures, int(belief.after[-1]))
    until_failure = np.minimum(repeats, 1.0 / max(rate, 1e-9))
    runs = all_passed * repeats[:, None] + some_failed * until_failure[:, None]
    return gained[:, :-1], runs[:, :-1]


def skip_risk(skipped: Mask, told: Mask) -> Floats:
    """A guess at how likely each variant is to be one that cannot be told.

    Such variants come in stretches. A stretch is known from its first to its last skipped variant
    with no told one between; the wider it is known to be, the further away the risk reaches, so
    that repeated skips lead away in growing steps.
    """
    risk = np.zeros(len(skipped))
    places = np.arange(len(skipped))
    for first, last in _stretches(skipped, told):
        width = last - first + 1
        away = np.maximum(np.maximum(first - places, places - last), 0)
        risk = np.maximum(risk, width / (width + away))
    return risk


def _stretches(skipped: Mask, told: Mask) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    is_open = False
    for i in np.flatnonzero(skipped | told):
        if told[i]:
            is_open = False
        elif is_open:
            found[-1] = (found[-1][0], int(i))
        else:
            found.append((int(i), int(i)))
            is_open = True
    return found


def choose(
    belief: Belief,
    closed: Mask,
    told: Mask,
    risk: Floats,
    visit: float,
    repeats: Ints = REPEATS,
) -> tuple[int, int] | None:
    """The variant to run next and how often at most, or None if none can tell anything.

    ``closed`` variants are not to be run, ``told`` ones gave an answer before (hence are built),
    ``risk`` is the chance that a variant cannot be told.
    """
    size = len(belief.after) - 1
    closed, told, chance = closed[:size], told[:size], 1.0 - risk[:size]
    if closed.all():
        return None
    gained, runs = gains(belief, repeats)
    table = gained * chance / (runs + np.where(told, 0.0, visit))
    table[:, closed] = 0.0
    best = float(table.max())
    if best <= LEAST_SCORE:
        return None
    # What differs by rounding only is a tie, so that another machine chooses alike.
    row, index = np.argwhere(table >= best * (1 - 1e-9))[0]
    return int(index), int(repeats[row])
