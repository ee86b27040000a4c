"""How likely each variant is to be the culprit, when a bad one fails only some of the time.

A good variant never shows the failure; a bad one shows it at an unknown rate, the same for all.
So one failure settles a variant, and many passes only make it likely to be good. The rate is
either 1 (a steady failure) or uniform on [0, 1]; both possibilities are carried along and the
rate is integrated out: with ``f`` failures and ``g`` passes on bad variants, in a given order,

    P(observations) = steady * [g = 0]  +  (1 - steady) * f! g! / (f + g + 1)!

(the second term is the Beta function ``B(f + 1, g + 1)``). Culprit ``c`` makes every variant from
``c`` on bad, so its likelihood is that expression with ``g`` the passes seen at or after ``c``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@cache
def _log_factorials(size: int) -> Floats:
    logs = np.log(np.arange(1, size, dtype=np.float64))
    return np.concatenate(([0.0], np.cumsum(logs)))


def log_factorial(most: int) -> Floats:
    """``log k!`` for k from 0 to at least ``most``."""
    return _log_factorials(1 << max(most, 4095).bit_length())


@dataclass(frozen=True)
class RatePrior:
    """What is known of the failure rate beforehand.

    ``failures`` and ``passes`` are earlier runs of the bad end (reruns of the finding, say);
    ``steady`` is the probability of a failure that always shows, before those.
    """

    steady: float = 0.5
    failures: int = 0
    passes: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.steady < 1 and self.failures >= 0 and self.passes >= 0):
            raise ValueError(f"{self} is not a prior: 0 <= steady < 1, counts >= 0")

    def log_unsteady(self, failures: int, passes: Ints) -> Floats:
        """Log of the second term above, for an array of pass counts."""
        f = failures + self.failures
        g = passes + self.passes
        table = log_factorial(f + int(g.max(initial=0)) + 1)
        log_beta = table[f] + table[g] - table[f + g + 1]
        return np.asarray(math.log1p(-self.steady) + log_beta)

    def log_steady(self, passes: Ints) -> Floats:
        """Log of the first term above."""
        weight = math.log(self.steady) if self.steady > 0 else -math.inf
        return np.where(passes + self.passes == 0, weight, -math.inf)

    def log_likelihood(self, failures: int, passes: Ints) -> Floats:
        return np.logaddexp(self.log_steady(passes), self.log_unsteady(failures, passes))

    def chance_of_passing(self, failures: int, passes: int, more: int) -> float:
        """P(a bad variant passes ``more`` times in a row), after ``failures`` and ``passes``."""
        if more == 0:
            return 1.0
        now = self.log_likelihood(failures, np.array([passes]))[0]
        then = self.log_unsteady(failures, np.array([passes + more]))[0]
        return float(np.exp(then - now))

    def rate(self, failures: int, passes: int) -> float:
        """The expected failure rate of a bad variant."""
        return 1.0 - self.chance_of_passing(failures, passes, 1)


@dataclass(frozen=True)
class Belief:
    """Weights over culprits ``0 .. first_bad``, index 0 meaning that the good end is bad.

    ``steady`` and ``unsteady`` are the two terms of the likelihood times the prior, scaled
    together so that their sum is 1; ``after`` are the passes seen at or after each culprit.
    """

    prior: RatePrior
    failures: int
    after: Ints
    log_prior: Floats
    shift: float
    steady: Floats
    unsteady: Floats

    @property
    def weights(self) -> Floats:
        return self.steady + self.unsteady

    def unsteady_after(self, more: Ints) -> Floats:
        """Weight ``[k, c]`` of culprit ``c`` together with ``more[k]`` passes at or after it."""
        log = self.prior.log_unsteady(self.failures, self.after + more[:, None])
        return np.asarray(np.exp(log + (self.log_prior - self.shift)))


GOOD_END_DOUBT = 0.05  # how often, before looking, a claimed end is not what it is said to be


def believe(prior: RatePrior, good: Ints, bad: Ints) -> Belief:
    """The posterior after ``good[i]`` passes and ``bad[i]`` failures of each variant ``i``.

    At least one failure must have been seen; the first variant that failed bounds the culprit.
    """
    first_bad = int(np.flatnonzero(bad)[0])
    after = np.cumsum(good[::-1])[::-1][: first_bad + 1]
    log_prior = np.full(first_bad + 1, math.log((1 - GOOD_END_DOUBT) / max(len(good) - 1, 1)))
    log_prior[0] = math.log(GOOD_END_DOUBT)
    failures = int(bad.sum())
    steady = prior.log_steady(after) + log_prior
    unsteady = prior.log_unsteady(failures, after) + log_prior
    both = np.logaddexp(steady, unsteady)
    top = both.max()
    shift = float(top + np.log(np.exp(both - top).sum()))
    return Belief(
        prior=prior,
        failures=failures,
        after=after,
        log_prior=log_prior,
        shift=shift,
        steady=np.exp(steady - shift),
        unsteady=np.exp(unsteady - shift),
    )
