"""Paired timing: what is called slower, and how seldom equals are."""

from __future__ import annotations

import random

import pytest

from diffuzz.timing import LEAST_PAIRS, Round, compare, interval


def rounds(count: int, factor: float, noise: float, seed: int) -> list[Round]:
    """Cases of very different sizes, the candidate ``factor`` times as slow, lognormal noise."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        size = rng.lognormvariate(-7, 1)
        a, b, c, d = (size * k * rng.lognormvariate(0, noise) for k in (1, factor, factor, 1))
        made.append(Round((a, d), (b, c)))
    return made


def test_equals_are_not_called_slower_or_faster() -> None:
    for seed in range(300):
        found = compare(rounds(30, 1.0, 0.15, seed))
        assert found is not None
        assert not found.slower
        assert not found.faster


@pytest.mark.parametrize(("factor", "word"), [(1.5, "slower"), (0.6, "faster")])
def test_differences_beyond_noise_are_told(factor: float, word: str) -> None:
    found = compare(rounds(40, factor, 0.1, 1))
    assert found is not None
    assert (found.slower, found.faster) == (word == "slower", word == "faster")
    assert found.said.startswith(f"{word}: ")
    assert found.ratio.low < factor < found.ratio.high


def test_a_drift_that_hits_both_alike_is_no_difference() -> None:
    """A clock that slows down by a fifth during each round."""
    drifting = [Round((1.0, 1.2), (1.0 + 0.2 / 3, 1.0 + 0.4 / 3)) for _ in range(50)]
    found = compare(drifting)
    assert found is not None
    assert not found.slower


def test_a_certain_difference_below_the_margin_is_nobodys_concern() -> None:
    found = compare([Round((1.0, 1.0), (1.01, 1.01))] * 100)
    assert found is not None
    assert found.said.startswith("no difference beyond noise")


def test_too_few_cases_say_nothing() -> None:
    assert compare(rounds(LEAST_PAIRS - 1, 3.0, 0.0, 0)) is None
    assert compare([Round((0.0, 0.0), (0.0, 0.0))] * 20) is None


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    rng = random.Random(5)
    hits = 0
    for _ in range(2000):
        found = interval([rng.gauss(0, 1) for _ in range(15)], 0.95)
        hits += found.low <= 0 <= found.high
    assert hits / 2000 >= 0.95


def test_ranks_of_the_interval_are_those_of_the_sign_test() -> None:
    """With ten values, the second and ninth enclose the median with 97.9 %."""
    found = interval(range(1, 11), 0.975)
    assert (found.low, found.middle, found.high) == (2, 5.5, 9)
