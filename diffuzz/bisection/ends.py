"""Looking at the two ends before anything else, and naming the one that is not as claimed."""

from __future__ import annotations

from diffuzz.bisection.answers import BadEnds, Seen
from diffuzz.bisection.doubt import Plan, genuine, good_end_doubt, may_still_fail
from diffuzz.bisection.tally import Ask, Tally

GOOD_END_FAILED = "both ends are bad: the good end failed as well"


def bad_end(tally: Tally, which: str, why: str) -> BadEnds:
    return BadEnds(which, why, tally.seen(0), tally.seen(tally.n - 1), tally.evidence())


def check_ends(tally: Tally, plan: Plan) -> Ask[BadEnds | None]:
    """Look at both ends; learn the failure rate at the bad one."""
    last = tally.n - 1
    for end, name in ((last, "bad"), (0, "good")):
        if tally.skip[end] or (yield from tally.ask(end)) is Seen.SKIP:
            return bad_end(tally, name, f"nothing can be told at the {name} end")
    while not tally.bad[last] and may_still_fail(tally, plan):
        if (yield from tally.ask(last)) is Seen.SKIP:
            return bad_end(tally, "bad", "nothing can be told at the bad end")
    if not tally.bad[last]:
        return (yield from _passing_bad_end(tally))
    while tally.bad[last] < plan.calibrate and not tally.skip[last]:
        yield from tally.ask(last)
    while not tally.closed()[0]:
        if tally.bad[0]:
            if (yield from repeats(tally, plan, 0)):
                return bad_end(tally, "good", GOOD_END_FAILED)
        elif good_end_doubt(tally, plan) > 1 - plan.confidence:
            yield from tally.ask(0)
        else:
            break
    return None


def _passing_bad_end(tally: Tally) -> Ask[BadEnds]:
    """The bad end always passed. Is it that the ends are swapped?"""
    passes = int(tally.good[-1])
    while not tally.bad[0] and tally.good[0] < passes and not tally.skip[0]:
        yield from tally.ask(0)
    shown = f"the bad end passed {passes} of {passes} runs"
    if tally.bad[0]:
        return bad_end(tally, "both", f"{shown} and the good end failed: they are swapped")
    return bad_end(tally, "bad", f"both ends are good: {shown}")


def repeats(tally: Tally, plan: Plan, index: int) -> Ask[bool]:
    """Run a variant that failed once until it fails again; set the failure aside if it does not."""
    passes = 0
    while tally.bad[index] == 1 and not tally.closed()[index]:
        if (yield from tally.ask(index)) is Seen.GOOD:
            passes += 1
            if genuine(tally, plan, passes) < 1 - plan.confidence:
                tally.dismiss(index)
                return False
    return True
