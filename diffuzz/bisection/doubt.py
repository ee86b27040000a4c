"""How sure to be (:class:`Plan`), and how sure one is: the probabilities a search stops at."""

from __future__ import annotations

from dataclasses import dataclass, field

from diffuzz.bisection.belief import GOOD_END_DOUBT, RatePrior, believe
from diffuzz.bisection.tally import Bracket, Tally

STRAY = 1e-3  # how often, before looking, a single failure comes from outside the variant


@dataclass(frozen=True)
class Plan:
    """How sure to be and how much to spend.

    ``visit`` is what the first run of a variant costs (building it), in runs; ``judge_all`` the
    most variants that are all judged instead of searched; ``calibrate`` how many failures of the
    bad end to see before searching, to know the failure rate; ``end_runs`` how often a bad end
    may pass, when nothing is known of the rate, before it is called good; ``skips_in_a_row`` when
    to stop looking for a variant that can be told; ``confirm`` the runs in turns at the end.
    """

    confidence: float = 0.999
    rate: RatePrior = field(default_factory=RatePrior)
    visit: float = 5000.0
    judge_all: int = 24
    calibrate: int = 8
    end_runs: int = 64
    skips_in_a_row: int = 8
    confirm: int = 2
    max_runs: int = 20_000

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence {self.confidence} is not in [0.5, 1)")
        if self.max_runs < 2:
            raise ValueError("both ends have to be run: max_runs is less than 2")


def posterior(prior: float, likelihood: float, of_others: float) -> float:
    return prior * likelihood / (prior * likelihood + (1 - prior) * of_others)


def may_still_fail(tally: Tally, plan: Plan) -> bool:
    passes = int(tally.good[-1])
    if plan.rate.failures == 0:
        return passes < plan.end_runs
    chance = plan.rate.chance_of_passing(0, 0, passes)
    return posterior(GOOD_END_DOUBT, 1.0, chance) < plan.confidence


def good_end_doubt(tally: Tally, plan: Plan) -> float:
    return 1 - posterior(1 - GOOD_END_DOUBT, 1.0, chance_of_passing(tally, plan, 0))


def chance_of_passing(tally: Tally, plan: Plan, index: int) -> float:
    """P(``index`` passes all its passes | it is bad), by the rate the failing variants show."""
    failures, passes = tally.of_failing()
    return plan.rate.chance_of_passing(failures, passes, int(tally.good[index]))


def doubt(tally: Tally, plan: Plan, index: int) -> float:
    """P(``index``, seen only to pass, is bad), with no say of its neighbours."""
    return 1 - posterior(0.5, 1.0, chance_of_passing(tally, plan, index))


def genuine(tally: Tally, plan: Plan, passes: int) -> float:
    """P(a failure followed by ``passes`` passes, all counted, came from the variant)."""
    failures, others = tally.of_failing()
    chance = plan.rate.chance_of_passing(failures, others - passes, passes)
    return posterior(1 - STRAY, chance, 1.0)


def share_inside(tally: Tally, plan: Plan, bracket: Bracket) -> float:
    """P(the culprit lies inside the bracket)."""
    belief = believe(plan.rate, tally.good, tally.bad)
    return float(belief.weights[bracket.good + 1 :].sum())
