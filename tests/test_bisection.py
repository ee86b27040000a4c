"""Searches over rows of variants whose behaviour is written down here."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from diffuzz.bisection import (
    Answer,
    BadEnds,
    Culprit,
    NoDifference,
    Plan,
    Range,
    RatePrior,
    Seen,
    SizePlan,
    next_probe,
    search,
    search_size,
    search_steps,
)
from diffuzz.bisection.belief import believe
from diffuzz.bisection.choose import gains, skip_risk
from diffuzz.finding import Direction

SEARCH = Plan(judge_all=0)
FIXED = Direction.FIXED
SIGNS = {"g": Seen.GOOD, "b": Seen.BAD, "s": Seen.SKIP}


class Row:
    """Variants written as letters; ``looks`` are the indices asked for, in order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.looks: list[int] = []

    def __call__(self, index: int) -> Seen:
        self.looks.append(index)
        return SIGNS[self.text[index]]

    @property
    def visited(self) -> set[int]:
        return set(self.looks)


def steady(n: int, culprit: int) -> Row:
    return Row("g" * culprit + "b" * (n - culprit))


def flaky(n: int, culprit: int, rate: float, seed: int) -> Callable[[int], Seen]:
    rng = random.Random(seed)
    return lambda i: Seen.BAD if i >= culprit and rng.random() < rate else Seen.GOOD


# --- steady rows --------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [Plan(), SEARCH], ids=["whole", "searched"])
def test_every_culprit_of_every_short_row_is_found(plan: Plan) -> None:
    for n in range(2, 12):
        for culprit in range(1, n):
            row = steady(n, culprit)
            answer = search(n, row, plan=plan)
            assert isinstance(answer, Culprit)
            assert (answer.index, answer.last_good, answer.parent) == (culprit,) + (
                culprit - 1,
            ) * 2
            assert answer.confidence >= plan.confidence
            assert answer.tested == tuple(sorted(row.visited))
            assert [str(t) for t in answer.transitions] == [
                f"{answer.last_good} good -> {culprit} bad"
            ]


def test_a_mended_row_names_the_variant_that_mended_it() -> None:
    for plan in (Plan(), SEARCH):
        answer = search(9, Row("bbbbbgggg"), direction=FIXED, plan=plan)
        assert isinstance(answer, Culprit)
        assert (answer.index, answer.last_good, answer.first_bad) == (5, 5, 4)
        assert answer.direction is FIXED
        assert [str(t) for t in answer.transitions] == ["4 bad -> 5 good"]


def test_a_long_row_takes_no_more_variants_than_halving() -> None:
    for culprit in (1, 77, 500, 1023):
        row = steady(1024, culprit)
        answer = search(1024, row)
        assert isinstance(answer, Culprit)
        assert answer.index == culprit
        assert len(row.visited) <= 10 + 2


def test_the_two_sides_are_run_again_in_turns_at_the_end() -> None:
    row = steady(40, 13)
    search(40, row, plan=SEARCH)
    assert row.looks[-4:] == [12, 13, 12, 13]


def test_a_short_row_is_judged_as_a_whole() -> None:
    row = Row("ggbbggbb")
    answer = search(8, row)
    assert isinstance(answer, Culprit)
    assert row.visited == set(range(8))
    assert answer.index == 6
    assert not answer.monotone
    assert [str(t) for t in answer.transitions] == [
        "1 good -> 2 bad",
        "3 bad -> 4 good",
        "5 good -> 6 bad",
    ]


def test_a_mended_row_that_comes_and_goes_keeps_the_order_of_time() -> None:
    answer = search(6, Row("bgbggg"), direction=FIXED)
    assert isinstance(answer, Culprit)
    assert answer.index == 1  # the change that ended the old end's behaviour
    assert [str(t) for t in answer.transitions] == [
        "0 bad -> 1 good",
        "1 good -> 2 bad",
        "2 bad -> 3 good",
    ]


# --- ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "which", "same", "unknown"),
    [
        ("bbbb", "good", True, False),
        ("gggg", "bad", True, False),
        ("bbgg", "both", False, False),
        ("sbbb", "good", False, True),
        ("gggs", "bad", False, True),
    ],
)
def test_an_end_that_is_not_as_claimed_is_named(
    text: str, which: str, same: bool, unknown: bool
) -> None:
    row = Row(text)
    answer = search(4, row)
    assert isinstance(answer, BadEnds)
    assert (answer.which, answer.same, answer.unknown) == (which, same, unknown)
    assert row.visited <= {0, 3}


def test_one_variant_holds_no_difference() -> None:
    assert isinstance(search(1, Row("g")), NoDifference)
    with pytest.raises(ValueError, match="no variants"):
        search(0, Row(""))


def test_a_known_rate_spares_runs_at_an_end_that_never_fails() -> None:
    known, unknown = Row("gg"), Row("gg")
    search(2, known, plan=Plan(rate=RatePrior(failures=20)))
    search(2, unknown)
    assert len(known.looks) < 12 < len(unknown.looks)


def test_a_rare_failure_at_the_good_end_is_noticed() -> None:
    def probe(index: int) -> Seen:
        return flaky_all(index)

    flaky_all = flaky(100, 0, 0.2, seed=3)
    answer = search(100, probe)
    assert isinstance(answer, BadEnds)
    assert answer.which == "good"


# --- skips --------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [Plan(), SEARCH], ids=["whole", "searched"])
def test_skips_that_hide_the_answer_make_a_range(plan: Plan) -> None:
    answer = search(10, Row("gggsssbbbb"), plan=plan)
    assert isinstance(answer, Range)
    assert (answer.good, answer.bad, answer.untested) == (2, 6, (3, 4, 5))
    assert answer.confidence >= 0.999


def test_a_range_of_a_mended_row_is_in_order_of_time() -> None:
    answer = search(10, Row("bbbsssgggg"), direction=FIXED)
    assert isinstance(answer, Range)
    assert (answer.bad, answer.good, answer.untested) == (2, 6, (3, 4, 5))


def test_skips_elsewhere_do_not_matter() -> None:
    for text in ("gsgsgsgsgbsbsbsb", "gggggssssgggbbbb", "gggbsssssssssssb"):
        for plan in (Plan(), SEARCH):
            answer = search(len(text), Row(text), plan=plan)
            assert isinstance(answer, Culprit)
            assert answer.index == text.index("b")


def test_an_unbuildable_stretch_is_jumped_over() -> None:
    text = "g" * 300 + "s" * 400 + "g" * 100 + "b" * 200
    row = Row(text)
    answer = search(len(text), row)
    assert isinstance(answer, Culprit)
    assert answer.index == 800
    skips = sum(text[i] == "s" for i in row.looks)
    assert skips <= 6


def test_a_stretch_that_hides_the_answer_is_not_walked_one_by_one() -> None:
    text = "g" * 300 + "s" * 400 + "b" * 300
    row = Row(text)
    answer = search(len(text), row)
    assert isinstance(answer, Range)
    assert answer.good < 300
    assert answer.bad >= 700
    assert sum(text[i] == "s" for i in row.looks) <= 30
    assert "in a row" in answer.why


def test_variants_known_to_be_untellable_are_never_run() -> None:
    row = Row("ggggssssssbbbbbb")
    answer = search(16, row, skipped=range(4, 10), plan=SEARCH)
    assert isinstance(answer, Range)
    assert answer.untested == tuple(range(4, 10))
    assert not row.visited & set(range(4, 10))
    mended = Row("bbsggggg")
    answer = search(8, mended, direction=FIXED, skipped=[2])
    assert isinstance(answer, Range)
    assert 2 not in mended.visited


def test_random_rows_with_skips_give_the_truth_or_the_range_around_it() -> None:
    rng = random.Random(11)
    for _ in range(150):
        n = rng.randrange(2, 90)
        culprit = rng.randrange(1, n)
        letters = list("g" * culprit + "b" * (n - culprit))
        for _ in range(rng.randrange(4)):
            start = rng.randrange(1, n)
            for i in range(start, min(n - 1, start + rng.randrange(1, 20))):
                letters[i] = "s"
        answer = search(n, Row("".join(letters)), plan=rng.choice([Plan(), SEARCH]))
        assert isinstance(answer, (Culprit, Range))
        if isinstance(answer, Culprit):
            assert answer.index == culprit
        else:
            assert answer.good < culprit <= answer.bad
            if "in a row" not in answer.why:
                assert all(letters[i] == "s" for i in answer.untested)


# --- unsteady rows ------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "trials"), [(0.1, 12), (0.3, 25), (0.9, 40)])
def test_unsteady_culprits_are_found(rate: float, trials: int) -> None:
    for seed in range(trials):
        culprit = 1 + (seed * 37) % 127
        answer = search(128, flaky(128, culprit, rate, seed))
        assert isinstance(answer, Culprit)
        assert answer.index == culprit
        assert answer.confidence >= 0.99
        failing = [e for e in answer.evidence if e.bad]
        if sum(e.good for e in failing):
            assert "bad variants fail in" in answer.notes[0]


def test_an_unsteady_row_judged_as_a_whole_shows_every_change() -> None:
    rng = random.Random(5)
    bad = {2, 3, 6, 7}
    answer = search(8, lambda i: Seen.BAD if i in bad and rng.random() < 0.3 else Seen.GOOD)
    assert isinstance(answer, Culprit)
    assert answer.index == 6
    assert len(answer.transitions) == 3


@pytest.mark.parametrize("plan", [Plan(judge_all=200), SEARCH], ids=["whole", "searched"])
def test_a_single_failure_that_does_not_repeat_is_set_aside(plan: Plan) -> None:
    strays = {64}

    def probe(index: int) -> Seen:
        if index in strays:
            strays.remove(index)
            return Seen.BAD
        return Seen.BAD if index >= 120 else Seen.GOOD

    answer = search(128, probe, plan=plan)
    assert not strays
    assert isinstance(answer, Culprit)
    assert answer.index == 120
    assert answer.monotone
    assert answer.confidence > 0.99
    assert "set aside, of variant 64" in answer.notes[0]


def test_the_limit_of_runs_ends_in_a_range_that_says_so() -> None:
    answer = search(128, flaky(128, 60, 0.3, seed=1), plan=Plan(max_runs=80))
    assert isinstance(answer, Range)
    assert answer.good < 60 <= answer.bad
    assert "limit of 80 runs" in answer.why


def test_a_variant_lost_to_the_machine_later_on_does_not_hang_the_search() -> None:
    calls = 0

    def probe(index: int) -> Seen:
        nonlocal calls
        calls += 1
        return Seen.SKIP if calls > 30 else flaky_row(index)

    flaky_row = flaky(128, 60, 0.5, seed=1)
    answer = search(128, probe)
    assert isinstance(answer, (Range, Culprit, BadEnds))
    assert calls < 100


# --- belief and choice, against sums written out ------------------------------------------------


def test_the_posterior_equals_the_integral_done_numerically() -> None:
    good, bad = np.array([4, 3, 0, 2, 0]), np.array([0, 0, 0, 1, 2])
    weights = believe(RatePrior(steady=0.25, failures=1), good, bad).weights
    rates = (np.arange(200_000) + 0.5) / 200_000
    expected = []
    for culprit in range(4):
        passes = good[culprit:].sum()
        integral = (rates**4 * (1 - rates) ** passes).mean()
        prior = 0.05 if culprit == 0 else 0.95 / 4
        expected.append(prior * (0.25 * (passes == 0) + 0.75 * integral))
    np.testing.assert_allclose(weights, np.array(expected) / sum(expected), rtol=1e-6)


def test_the_gain_equals_the_entropy_difference_written_out() -> None:
    prior = RatePrior(steady=0.3)
    good, bad = np.array([3, 0, 1, 0, 0, 1]), np.array([0, 0, 0, 0, 1, 2])
    belief = believe(prior, good, bad)

    def entropy(weights: np.ndarray) -> float:
        p = weights[weights > 0] / weights.sum()
        return float(-(p * np.log2(p)).sum())

    gained = gains(belief, np.array([1]))[0][0]
    now = belief.weights
    for index in range(4):
        more = good.copy()
        more[index] += 1
        rescale = np.exp(belief.shift)
        after = believe(prior, more, bad)
        passed = after.weights * np.exp(after.shift) / rescale
        failed = now - passed
        failed[index + 1 :] = 0
        expected = entropy(now) - passed.sum() * entropy(passed) - failed.sum() * entropy(failed)
        assert gained[index] == pytest.approx(expected, abs=1e-9)


def test_the_risk_of_a_skip_reaches_further_from_wider_stretches() -> None:
    skipped = np.zeros(40, dtype=bool)
    told = np.zeros(40, dtype=bool)
    skipped[20] = True
    narrow = skip_risk(skipped, told)
    skipped[26] = True
    wide = skip_risk(skipped, told)
    assert narrow[20] == 1
    assert narrow[21] == 0.5
    assert wide[23] == 1
    assert wide[28] > narrow[22]
    told[23] = True
    assert skip_risk(skipped, told)[23] < 0.5


# --- logs ---------------------------------------------------------------------------------------


def test_a_search_killed_anywhere_goes_on_to_the_same_answer() -> None:
    def run(log: list[tuple[int, Seen]], stop: int | None) -> tuple[Answer | None, list]:
        kept = list(log)
        rng_probe = outcomes(dict.fromkeys(range(128), 0), kept)

        def probe(index: int) -> Seen:
            if stop is not None and len(kept) >= stop:
                raise KeyboardInterrupt
            return rng_probe(index)

        try:
            answer = search(
                128, probe, log=list(log), record=lambda i, seen: kept.append((i, seen))
            )
        except KeyboardInterrupt:
            return None, kept
        return answer, kept

    def outcomes(counts: dict[int, int], kept: list[tuple[int, Seen]]) -> Callable[[int], Seen]:
        # The k-th run of a variant always does the same, as if the row had a fate.
        for index, _ in kept:
            counts[index] += 1

        def probe(index: int) -> Seen:
            counts[index] += 1
            fails = random.Random(f"{index} {counts[index]}").random() < 0.4
            return Seen.BAD if index >= 71 and fails else Seen.GOOD

        return probe

    whole, full_log = run([], None)
    assert isinstance(whole, Culprit)
    assert whole.index == 71
    for stop in range(0, len(full_log), 7):
        interrupted, part = run([], stop)
        assert interrupted is None
        assert part == full_log[:stop]
        resumed, log = run(part, None)
        assert resumed == whole
        assert log == full_log


def test_the_next_probe_of_a_log_is_the_one_the_search_makes() -> None:
    log: list[tuple[int, Seen]] = []
    search(64, steady(64, 20), record=lambda i, seen: log.append((i, seen)))
    for length in range(len(log)):
        assert (
            next_probe(search_steps(64), 64, Direction.REGRESSION, log[:length]) == log[length][0]
        )
    assert isinstance(next_probe(search_steps(64), 64, Direction.REGRESSION, log), Culprit)


def test_a_whole_log_needs_no_probe() -> None:
    log: list[tuple[int, Seen]] = []
    first = search(64, steady(64, 20), record=lambda i, seen: log.append((i, seen)))

    def never(index: int) -> Seen:
        raise AssertionError(index)

    assert search(64, never, log=log) == first


# --- by size ------------------------------------------------------------------------------------

STAIRS = SizePlan(judge_all=0)


def test_a_change_of_size_is_found_with_its_sizes() -> None:
    for n in (5, 200):
        for plan in (SizePlan(), STAIRS):
            answer = search_size(n, lambda i: 14.0 if i >= 3 else 1.9, plan=plan)
            assert isinstance(answer, Culprit)
            assert (answer.index, answer.good_size, answer.bad_size) == (3, 1.9, 14.0)
            assert answer.confidence > 0.999
            assert [str(t) for t in answer.transitions] == ["2 1.9 -> 3 14"]


def test_the_highest_of_several_steps_is_the_answer() -> None:
    def size(index: int) -> float:
        return 1.0 if index < 100 else 2.0 if index < 300 else 10.0 if index < 310 else 13.0

    answer = search_size(512, size)
    assert isinstance(answer, Culprit)
    assert answer.index == 300
    assert (answer.good_size, answer.bad_size) == (2.0, 10.0)
    assert len(answer.tested) < 40


def test_a_mended_size() -> None:
    sizes = [9.0] * 30 + [2.0] * 70
    answer = search_size(100, sizes.__getitem__, direction=FIXED)
    assert isinstance(answer, Culprit)
    assert (answer.index, answer.good_size, answer.bad_size) == (30, 2.0, 9.0)
    assert [str(t) for t in answer.transitions] == ["29 9 -> 30 2"]


def test_sizes_that_do_not_differ_or_differ_the_other_way() -> None:
    assert isinstance(search_size(9, lambda i: 3.0 + i / 100), NoDifference)
    swapped = search_size(9, lambda i: 9.0 - i)
    assert isinstance(swapped, BadEnds)
    assert swapped.which == "both"
    lost = search_size(9, lambda i: Seen.SKIP if i == 0 else 1.0)
    assert isinstance(lost, BadEnds)
    assert lost.unknown


def test_zero_infinite_and_nan_errors_have_their_place() -> None:
    answer = search_size(8, [0, 0, 0, 1.0, 1.0, math.nan, math.inf, math.nan].__getitem__)
    assert isinstance(answer, Culprit)
    assert answer.index == 5
    with pytest.raises(ValueError, match="variant 7"):
        search_size(8, lambda i: -1.0)
    with pytest.raises(TypeError, match="needs a size"):
        search_size(8, lambda i: Seen.BAD)


def test_sizes_hidden_by_skips_make_a_range() -> None:
    def probe(index: int) -> Seen | float:
        return Seen.SKIP if 40 <= index < 45 else 1.0 if index < 42 else 8.0

    for n in (90, 1000):
        answer = search_size(n, probe)
        assert isinstance(answer, Range)
        assert (answer.good, answer.bad) == (39, 45)
        assert (answer.good_size, answer.bad_size) == (1.0, 8.0)


def test_noise_lowers_the_confidence_of_a_size() -> None:
    rng = random.Random(2)
    answer = search_size(64, lambda i: (4.0 if i >= 20 else 2.0) * 2 ** rng.gauss(0, 0.6))
    quiet = search_size(64, lambda i: 4.0 if i >= 20 else 2.0)
    assert isinstance(answer, (Culprit, Range))
    assert isinstance(quiet, Culprit)
    assert answer.confidence < 0.9 < quiet.confidence


def test_repeats_use_the_median() -> None:
    calls: dict[int, int] = {}

    def probe(index: int) -> float:
        calls[index] = calls.get(index, 0) + 1
        if calls[index] % 3 == 1:
            return 500.0  # one outlier in three
        return 16.0 if index >= 700 else 2.0

    answer = search_size(1000, probe, plan=SizePlan(repeats=3))
    assert isinstance(answer, Culprit)
    assert (answer.index, answer.good_size, answer.bad_size) == (700, 2.0, 16.0)


def test_a_search_by_size_resumes_from_its_log() -> None:
    log: list[tuple[int, Seen | float]] = []
    sizes = [8.0] * 70 + [2.0] * 130
    first = search_size(
        200, sizes.__getitem__, direction=FIXED, record=lambda i, size: log.append((i, size))
    )
    asked: list[int] = []

    def probe(index: int) -> float:
        asked.append(index)
        return sizes[index]

    for length in range(len(log)):
        asked.clear()
        assert search_size(200, probe, direction=FIXED, log=log[:length]) == first
        assert asked == [index for index, _ in log[length:]]


# --- the simulation -----------------------------------------------------------------------------


def test_the_simulation_prints_a_row_for_each_rate_and_method() -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "bisect_simulation.py"
    command = [sys.executable, str(script), "--trials", "4", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    rows = [line.split() for line in done.stdout.splitlines() if line.lstrip()[:3].endswith("%")]
    assert len(rows) == 3 * 6
    assert [row[2] for row in rows if row[1] == "diffuzz" and row[2] != "v20"] == ["100.0%"] * 3


# --- the module itself --------------------------------------------------------------------------


def test_a_search_loads_neither_torch_nor_git() -> None:
    code = (
        "import sys, diffuzz.bisection, diffuzz.shrink;"
        "print(sorted({'torch', 'git', 'triton', 'subprocess'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_search_needs_two_kinds_of_ends() -> None:
    with pytest.raises(ValueError, match="good end"):
        search(4, Row("ggbb"), direction=Direction.BOTH)
    with pytest.raises(ValueError, match="confidence"):
        Plan(confidence=1.0)
