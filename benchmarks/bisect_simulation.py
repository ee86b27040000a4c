"""Bisecting an unsteady failure: diffuzz next to repeated plain bisect and a simple Bayesian one.

    python benchmarks/bisect_simulation.py [--trials 500] [--seed 0]

A row of 128 commits, the first good and the last bad; the culprits are spread evenly over the
others. A bad commit fails at a rate the searches do not know, a good one never does. Counted are
distinct commits visited (each costs a build) and runs. Ends with exit code 1 if diffuzz names the
culprit in less than 99 % of the trials of any rate, or visits 9 commits or more on average, both
ends included (plain bisect: 7, and it takes the ends on trust).

* ``diffuzz``: as shipped, where a new commit costs as much as thousands of runs; ``diffuzz v20``
  where it costs 20, for kernels that build fast and run slowly.
* ``plain xN``: git's bisect, each commit run N times, bad if one of them fails. ``plain, told``
  is given the failure rate and runs each commit as often as 99.9 % need.
* ``bayes``: in the manner of git_bayesect: the posterior over culprits with the rate integrated
  out, one run at a time where the expected entropy falls most, until one commit has 99.9 %.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffuzz.bisection import Culprit, Plan, Seen, search

COMMITS = 128
RATES = (0.1, 0.3, 0.9)
SURE = 0.999
LEAST_RIGHT = 0.99
MOST_COMMITS = 9.0
BAYES = "bayes"

Floats = NDArray[np.float64]


class History:
    """One trial: counts what is run."""

    def __init__(self, culprit: int, rate: float, rng: random.Random) -> None:
        self.culprit = culprit
        self.rate = rate
        self.rng = rng
        self.visited: set[int] = set()
        self.runs = 0

    def fails(self, commit: int) -> bool:
        self.visited.add(commit)
        self.runs += 1
        return commit >= self.culprit and self.rng.random() < self.rate


Method = Callable[[History], int | None]


def diffuzz(visit: float) -> Method:
    def bisect(history: History) -> int | None:
        plan = Plan(visit=visit)
        answer = search(COMMITS, lambda i: Seen.BAD if history.fails(i) else Seen.GOOD, plan=plan)
        return answer.index if isinstance(answer, Culprit) else None

    return bisect


def plain(repeats: int | None) -> Method:
    def bisect(history: History) -> int:
        times = repeats or math.ceil(math.log(1 - SURE) / math.log(1 - history.rate))
        good, bad = 0, COMMITS - 1
        while bad - good > 1:
            middle = (good + bad) // 2
            if any(history.fails(middle) for _ in range(times)):
                bad = middle
            else:
                good = middle
        return bad

    return bisect


METHODS: dict[str, Method] = {
    "diffuzz": diffuzz(visit=Plan.visit),
    "diffuzz v20": diffuzz(visit=20),
    "plain x1": plain(1),
    "plain x10": plain(10),
    "plain, told": plain(None),
}


@dataclass(frozen=True)
class Figures:
    """Averages over the trials: share right, distinct commits (and without the ends), runs."""

    right: float
    commits: float
    between: float
    runs: float


def culprit_of(trial: int) -> int:
    return 1 + trial % (COMMITS - 1)


def measure(name: str, rate: float, trials: int, seed: int) -> Figures:
    if name == BAYES:
        return bayes(rate, trials, seed)
    right = commits = between = runs = 0
    for trial in range(trials):
        history = History(culprit_of(trial), rate, random.Random(f"{seed} {rate} {trial}"))
        right += METHODS[name](history) == history.culprit
        commits += len(history.visited)
        between += len(history.visited - {0, COMMITS - 1})
        runs += history.runs
    return Figures(right / trials, commits / trials, between / trials, runs / trials)


def bayes(rate: float, trials: int, seed: int) -> Figures:
    """All trials at once, a row each: passes and failures of every commit, one run a step."""
    rng = np.random.default_rng([seed, int(rate * 100)])
    culprits = np.array([culprit_of(trial) for trial in range(trials)])
    passes = np.zeros((trials, COMMITS))
    failures = np.zeros((trials, COMMITS))
    failures[:, -1] = 1  # the failure that was reported, not a run of its own
    answers = np.zeros(trials, dtype=np.int64)
    rows = np.arange(trials)
    while len(rows):
        weights, chance = posterior(passes[rows], failures[rows])
        sure = weights.max(axis=1) >= SURE
        answers[rows[sure]] = weights[sure].argmax(axis=1)
        rows, weights, chance = rows[~sure], weights[~sure], chance[~sure]
        commits = expected_entropy(weights, chance).argmin(axis=1)
        fails = (commits >= culprits[rows]) & (rng.random(len(rows)) < rate)
        failures[rows[fails], commits[fails]] += 1
        passes[rows[~fails], commits[~fails]] += 1
    failures[:, -1] -= 1
    visited = passes + failures > 0
    return Figures(
        right=float((answers == culprits).mean()),
        commits=float(visited.sum(axis=1).mean()),
        between=float(visited[:, 1:-1].sum(axis=1).mean()),
        runs=float((passes + failures).sum(axis=1).mean()),
    )


def posterior(passes: Floats, failures: Floats) -> tuple[Floats, Floats]:
    """P(culprit) and P(a bad commit fails the next run | culprit), the rate integrated out.

    The rate is uniform beforehand: with f failures and g passes at or after the culprit, the
    likelihood is B(f + 1, g + 1), and the next run fails with (f + 1) / (f + g + 2).
    """
    failed = failures.sum(axis=1, keepdims=True)
    after = passes[:, ::-1].cumsum(axis=1)[:, ::-1]
    log_factorial = np.array([math.lgamma(k + 1) for k in range(int((failed + after).max()) + 2)])
    log = log_factorial[after.astype(int)] - log_factorial[(failed + after + 1).astype(int)]
    log[:, 0] = -np.inf  # the good end is taken on trust
    log[(failures.cumsum(axis=1) - failures) > 0] = -np.inf  # after a failure
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True), (failed + 1) / (failed + after + 2)


def expected_entropy(weights: Floats, chance: Floats) -> Floats:
    """Of the posterior after one run of each commit."""
    failed, passed = weights * chance, weights * (1 - chance)
    later = 1 - weights.cumsum(axis=1)
    later_xlogx = xlogx(weights).sum(axis=1, keepdims=True) - xlogx(weights).cumsum(axis=1)
    fails, passing = failed.cumsum(axis=1), passed.cumsum(axis=1) + later
    entropy = xlogx(fails) - xlogx(failed).cumsum(axis=1)
    entropy += xlogx(passing) - xlogx(passed).cumsum(axis=1) - later_xlogx
    return np.asarray(entropy)


def xlogx(x: Floats) -> Floats:
    return np.asarray(x * np.log(np.maximum(x, 1e-300)))


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate bisecting an unsteady failure.")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    print(f"{COMMITS} commits, {given.trials} trials a rate, seed {given.seed}\n")
    print(f"{'rate':>5}  {'method':<12} {'right':>7} {'commits':>8} {'no ends':>8} {'runs':>8}")
    missed = []
    started = time.monotonic()
    with ProcessPoolExecutor(given.jobs) as pool:
        waiting = {
            (rate, name): pool.submit(measure, name, rate, given.trials, given.seed)
            for rate in RATES
            for name in (*METHODS, BAYES)
        }
        for (rate, name), figures in waiting.items():
            f = figures.result()
            shown = f"{f.right:>7.1%} {f.commits:>8.3f} {f.between:>8.3f} {f.runs:>8.1f}"
            print(f"{rate:>5.0%}  {name:<12} {shown}", flush=True)
            if name == "diffuzz" and (f.right < LEAST_RIGHT or f.commits >= MOST_COMMITS):
                missed.append(f"{rate:.0%}")
    print(f"\n{time.monotonic() - started:.0f} s")
    if missed:
        print(f"MISSED at {', '.join(missed)}: want {LEAST_RIGHT:.0%} right, < {MOST_COMMITS:g}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
