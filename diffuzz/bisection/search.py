"""Searching a row of variants that are good or bad, steadily or not.

Both ends are looked at first. A short row is judged as a whole, which also shows behaviour that
comes and goes; a long one is searched, each next look chosen by :mod:`diffuzz.bisection.choose`.
At the end the two variants beside the change are run again in turns.

Inside this module index 0 is the good end and ``n - 1`` the bad one; :mod:`.drive` translates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np

from diffuzz.bisection.answers import Answer, NoDifference, Seen
from diffuzz.bisection.belief import believe
from diffuzz.bisection.choose import choose
from diffuzz.bisection.doubt import Plan, doubt, genuine, share_inside
from diffuzz.bisection.drive import Steps, drive
from diffuzz.bisection.ends import GOOD_END_FAILED, bad_end, check_ends, repeats
from diffuzz.bisection.tally import Ask, Spent, Tally
from diffuzz.finding import Direction


def search(
    n: int,
    probe: Callable[[int], Seen],
    *,
    direction: Direction = Direction.REGRESSION,
    plan: Plan | None = None,
    skipped: Collection[int] = (),
    log: Iterable[tuple[int, Seen]] = (),
    record: Callable[[int, Seen], None] | None = None,
) -> Answer:
    """Find the variant of ``0 .. n - 1`` (oldest first) that changed good to bad.

    ``direction`` says which end is which: ``REGRESSION``, the oldest is good; ``FIXED``, the
    oldest is bad and the answer is the variant that mended it. ``skipped`` are variants known
    beforehand to be untellable. ``log`` and ``record``: see :func:`diffuzz.bisection.drive.drive`.
    """
    steps = search_steps(n, direction, plan, skipped)
    return drive(steps, n, direction, probe, log, record)


def search_steps(
    n: int,
    direction: Direction = Direction.REGRESSION,
    plan: Plan | None = None,
    skipped: Collection[int] = (),
) -> Steps[Seen]:
    """The search as a generator, for :func:`diffuzz.bisection.drive.next_probe`."""
    if n < 1:
        raise ValueError("nothing to search: no variants")
    if direction is Direction.FIXED:
        skipped = [n - 1 - i for i in skipped]
    plan = plan or Plan()
    return _steps(Tally(n, skipped, plan.judge_all, plan.max_runs), plan)


def _steps(tally: Tally, plan: Plan) -> Steps[Seen]:
    if tally.n == 1:
        return NoDifference("both ends are the same variant")
    try:
        wrong = yield from check_ends(tally, plan)
        if wrong is not None:
            return wrong
        while True:
            taught = yield from _look(tally, plan)
            if tally.bad[0] and (yield from repeats(tally, plan, 0)):
                return bad_end(tally, "good", GOOD_END_FAILED)
            if taught:
                continue  # choose again
            confirmed = yield from _confirm(tally, plan)
            if confirmed is not None:
                return _conclude(tally, plan, *confirmed)
    except Spent:
        return _out_of_runs(tally, plan)


def _look(tally: Tally, plan: Plan) -> Ask[bool]:
    """Learn more about the row; False when there is nothing more to learn before the end."""
    if tally.whole:
        yield from _judge_all(tally, plan)
        return False
    return (yield from _narrow(tally, plan))


def _judge_all(tally: Tally, plan: Plan) -> Ask[None]:
    """Run every variant until it failed twice or has passed often enough to be good."""
    for index in _by_halves(tally.n):
        while not tally.closed()[index]:
            if not tally.bad[index]:
                if doubt(tally, plan, index) <= 1 - plan.confidence:
                    break
                yield from tally.ask(index)
            elif (yield from repeats(tally, plan, index)):
                break


def _by_halves(n: int) -> list[int]:
    """``0 .. n - 1``, coarse before fine, so that a search broken off has seen all parts."""
    order, spans = [], [(0, n)]
    for low, high in spans:
        if low < high:
            middle = (low + high) // 2
            order.append(middle)
            spans += [(low, middle), (middle + 1, high)]
    return order


def _narrow(tally: Tally, plan: Plan) -> Ask[bool]:
    """One look more, or False when the bracket is as narrow and as sure as it can be."""
    bracket = tally.bracket()
    settled = not bracket.tellable or tally.skips_in_a_row >= plan.skips_in_a_row
    if settled and share_inside(tally, plan, bracket) >= plan.confidence:
        return False
    closed = tally.closed()
    if settled:  # only runs of what was told already can add anything
        closed |= ~tally.told()
    belief = believe(plan.rate, tally.good, tally.bad)
    chosen = choose(belief, closed, tally.told(), tally.skip_risk(), plan.visit)
    if chosen is None:
        return False
    index, most = chosen
    for _ in range(most):
        if (yield from tally.ask(index)) is not Seen.GOOD:
            break
    return True


def _confirm(tally: Tally, plan: Plan) -> Ask[tuple[float, tuple[str, ...]] | None]:
    """Run the two sides of the change again in turns.

    Returns how likely the bad side's failure is genuine (1 when it repeated) and what to say of
    it. None when a run changed the picture.
    """
    bracket = tally.bracket()
    sides = [bracket.good, bracket.bad]
    before = tally.bad[bracket.bad]
    passes = 0
    while tally.bad[bracket.bad] - before < plan.confirm:
        if tally.closed()[sides].any():
            return 1.0, ("the two sides of the change could not be run again in turns",)
        if (yield from tally.ask(bracket.good)) is Seen.BAD:
            return None
        if (yield from tally.ask(bracket.bad)) is Seen.GOOD:
            passes += 1
        likely = genuine(tally, plan, passes)
        if tally.bad[bracket.bad] == before and likely < 1 - plan.confidence:
            if before > 1:
                return likely, (f"the failure did not repeat in {passes} runs in turns",)
            tally.dismiss(bracket.bad)
            return None
    return 1.0, ()


def _confidence(tally: Tally, plan: Plan) -> float:
    bracket = tally.bracket()
    if tally.whole:
        return 1 - doubt(tally, plan, bracket.good)
    return share_inside(tally, plan, bracket)


def _conclude(tally: Tally, plan: Plan, likely: float, notes: tuple[str, ...]) -> Answer:
    failures, passes = tally.of_failing()
    if tally.strays.any():
        strays = ", ".join(map(str, np.flatnonzero(tally.strays)))
        notes += (f"a single failure that did not repeat was set aside, of variant {strays}",)
    if passes:
        notes += (f"bad variants fail in {failures} of {failures + passes} runs",)
    why = "nothing can be told of the variants between"
    if tally.bracket().tellable:
        why = f"stopped after {tally.skips_in_a_row} variants in a row that could not be told"
    return tally.answer(min(_confidence(tally, plan), likely), why, notes)


def _out_of_runs(tally: Tally, plan: Plan) -> Answer:
    why = f"stopped at the limit of {plan.max_runs} runs"
    if not tally.bad[-1]:
        return bad_end(tally, "bad", f"{why}: the bad end had not failed")
    if tally.bad[0]:
        return bad_end(tally, "good", GOOD_END_FAILED)
    return tally.answer(_confidence(tally, plan), why, [why])
