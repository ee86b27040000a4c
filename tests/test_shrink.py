"""Given what fails, the exact simplest case is known; these tests ask for that one."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuzz.case import Axis, Case, Choice, Flag, Int, IntList, Real, make_case, sort_key
from diffuzz.errors import UsageError
from diffuzz.shrink import PASSES, ShrinkResult, shrink
from diffuzz.shrink.moves import cuts, descend, simpler

AXES: tuple[Axis, ...] = (
    Choice("op", ("gather", "round_trip")),
    Choice("layout", ("NHD", "SHUFFLE", "HND")),
    Flag("rope"),
    IntList("lens", 0, 70, 1, 6, (0, 1, 15, 16, 17, 31, 32, 33)),
    Int("tokens", 0, 33, (0, 1, 2, 31, 32, 33), plain=1),
    Int("heads", 1, 24, (1, 3, 8, 16, 17)),
    Choice("head_size", (64, 128, 256)),
    Real("k_scale", 2.0**-12, 512.0, (0.037, 448.0)),
    Real("v_scale", 2.0**-12, 512.0, (0.037, 448.0)),
    Choice("content", ("plain", "wide", "extreme")),
)


def case(seed: int = 0, **values: object) -> Case:
    return make_case("toy", AXES, values, seed)


def draw(rng: random.Random) -> Case:
    def value(axis: Axis) -> object:
        if isinstance(axis, Choice):
            return rng.choice(axis.options)
        if isinstance(axis, Int):
            return rng.choice([rng.randint(axis.low, axis.high), *axis.boundaries])
        if isinstance(axis, IntList):
            size = rng.randint(axis.min_size, axis.max_size)
            return [rng.randint(axis.low, axis.high) for _ in range(size)]
        return rng.choice([1.0, 2.0 ** rng.uniform(-12, 9), *axis.boundaries])

    return make_case("toy", AXES, {a.name: value(a) for a in AXES}, rng.randrange(2**32))


def starts(predicate: Callable[[Case], bool], count: int = 10) -> list[Case]:
    """``count`` different cases that fail, each the first one of its seed."""
    found = []
    for seed in range(count):
        rng = random.Random(seed)
        drawn = draw(rng)
        while not predicate(drawn):
            drawn = draw(rng)
        found.append(drawn)
    return found


Failing = Callable[[Case], bool]

# What fails, and the simplest case that does.
SHAPES: dict[str, tuple[Failing, Case]] = {
    "always": (lambda c: True, case()),
    "one flag": (lambda c: c["rope"], case(rope=True)),
    "one option": (lambda c: c["layout"] == "SHUFFLE", case(layout="SHUFFLE")),
    "one of two options": (lambda c: c["content"] != "plain", case(content="wide")),
    "three axes": (
        lambda c: c["rope"] and c["tokens"] >= 9 and c["k_scale"] != 1.0,
        case(rope=True, tokens=9, k_scale=2.0),
    ),
    "a threshold": (lambda c: c["heads"] >= 13, case(heads=13)),
    "no tokens": (lambda c: c["tokens"] == 0, case(tokens=0)),
    "heads not divisible by 8": (lambda c: c["heads"] % 8 != 0, case()),
    "heads divisible by 3": (lambda c: c["heads"] % 3 == 0, case(heads=3)),
    "a long sequence": (lambda c: max(c["lens"]) >= 17, case(lens=[17])),
    "three sequences": (lambda c: len(c["lens"]) >= 3, case(lens=[1, 1, 1])),
    "total length": (lambda c: sum(c["lens"]) >= 40, case(lens=[40])),
    "an empty sequence": (lambda c: 0 in c["lens"], case(lens=[0])),
    "an empty one beside a long one": (
        lambda c: 0 in c["lens"] and max(c["lens"]) >= 16,
        case(lens=[0, 16]),
    ),
    "two long sequences": (
        lambda c: sum(v >= 16 for v in c["lens"]) >= 2,
        case(lens=[16, 16]),
    ),
    "falling lengths": (
        lambda c: any(a > b for a, b in pairwise(c["lens"])),
        case(lens=[1, 0]),
    ),
    "a product": (lambda c: c["heads"] * c["tokens"] >= 34, case(tokens=2, heads=17)),
    "a large scale": (lambda c: c["k_scale"] >= 100, case(k_scale=128.0)),
    "a small scale": (lambda c: c["k_scale"] <= 0.01, case(k_scale=2.0**-7)),
    "not a power of two": (
        lambda c: (
            case(k_scale=c["k_scale"])["k_scale"].as_integer_ratio()[0] != 1
            and c["k_scale"] not in (2.0**e for e in range(-12, 10))
            and c["k_scale"] > 1
        ),
        case(k_scale=3.0),
    ),
    "scales that differ": (lambda c: c["k_scale"] != c["v_scale"], case(v_scale=2.0)),
    "one flag or the other": (
        lambda c: c["rope"] or c["op"] == "round_trip",
        case(rope=True),
    ),
    "certain contents": (lambda c: c.seed % 5 == 3, case(seed=3)),
    "an edge of a block": (
        lambda c: any(v % 16 == 1 and v > 1 for v in c["lens"]) and c["head_size"] > 64,
        case(lens=[17], head_size=128),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_simplest_case_is_reached_from_anywhere(name: str) -> None:
    failing, simplest = SHAPES[name]
    assert failing(simplest)
    for start in starts(failing):
        result = shrink(start, AXES, failing)
        assert result.case == simplest, f"from {start.to_dict()}"
        assert not result.exhausted


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_what_fails_from_some_bounds_on_ends_at_the_bounds(seed: int) -> None:
    rng = random.Random(seed)
    least = {
        name: value
        for name, value in {
            "layout": rng.choice(["SHUFFLE", "HND"]),
            "rope": True,
            "lens": [1] * rng.randint(2, 5) + [rng.randint(2, 70)],
            "tokens": rng.randint(2, 33),
            "heads": rng.randint(2, 24),
            "v_scale": 2.0 ** rng.randint(1, 8),
        }.items()
        if rng.random() < 0.5
    }
    simplest = case(**least)

    def failing(c: Case) -> bool:
        def reaches(name: str) -> bool:
            if name == "layout":
                return bool(c[name] == simplest[name])
            if name == "lens":
                return len(c[name]) >= len(simplest[name]) and max(c[name]) >= max(simplest[name])
            return bool(c[name] >= simplest[name])

        return all(map(reaches, least))

    start = case(
        seed=rng.randrange(2**32),
        op="round_trip",
        layout=simplest["layout"],
        rope=True,
        lens=[rng.randint(0, 70) for _ in range(5)] + [70],
        tokens=33,
        heads=24,
        head_size=256,
        k_scale=2.0 ** rng.uniform(-12, 9),
        v_scale=2.0 ** rng.uniform(8, 9),
        content="extreme",
    )
    assert shrink(start, AXES, failing).case == simplest


def test_shrinking_costs_a_bounded_number_of_tries() -> None:
    worst = max(
        shrink(start, AXES, failing).tried
        for failing, _ in SHAPES.values()
        for start in starts(failing, 3)
    )
    assert worst < 1500


# --- constraints between axes -------------------------------------------------------------------

BOUND: tuple[Axis, ...] = (
    IntList("q", 1, 20, 1, 8),
    IntList("k", 1, 20, 1, 8),
    Int("batch", 1, 8),
    Int("heads", 1, 32, (8, 16)),
    Int("groups", 1, 32),
    Flag("fp8"),
    Real("scale", 2.0**-10, 2.0**10),
)


def bound_case(**values: object) -> Case:
    return make_case("bound", BOUND, values)


def bound_allowed(c: Case) -> str | None:
    if len(c["q"]) != len(c["k"]):
        return "as many queries as keys"
    if c["batch"] > len(c["q"]):
        return "no more batches than queries"
    if c["heads"] % c["groups"]:
        return "groups divide the heads"
    return None


def test_axes_that_are_bound_to_each_other_move_together() -> None:
    start = bound_case(q=[5, 6, 7, 8], k=[9, 3, 8, 2], batch=4, heads=24, groups=8)
    assert bound_allowed(start) is None
    tried: list[Case] = []

    def failing(c: Case) -> bool:
        tried.append(c)
        return c["groups"] >= 3 and len(c["q"]) >= 2

    result = shrink(start, BOUND, failing, allowed=bound_allowed)
    assert result.case == bound_case(q=[1, 1], k=[1, 1], heads=3, groups=3)
    assert all(bound_allowed(c) is None for c in tried)


def test_candidates_are_settled_before_they_are_judged() -> None:
    def allowed(c: Case) -> str | None:
        return None if c["fp8"] or c["scale"] == 1.0 else "only fp8 has a scale"

    def settle(c: Case) -> Case:
        return c if allowed(c) is None else c.replace(scale=1.0)

    start = bound_case(fp8=True, scale=3.7, heads=8)
    result = shrink(start, BOUND, lambda c: c["heads"] > 4, allowed=allowed, settle=settle)
    assert result.case == bound_case(heads=5)
    kept = shrink(start, BOUND, lambda c: c["scale"] > 2.5, allowed=allowed, settle=settle)
    assert kept.case == bound_case(fp8=True, scale=4.0)


def test_contents_may_change_when_a_smaller_case_has_lost_the_ones_that_fail() -> None:
    # Fails for one seed in three, another one for each number of heads.
    def failing(c: Case) -> bool:
        return c["tokens"] >= 4 and (c.seed + c["heads"]) % 3 == 0

    results = {shrink(start, AXES, failing).case for start in starts(failing)}
    assert results == {case(seed=2, tokens=4)}


# --- the loop -----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(SHAPES)))
def test_every_case_judged_is_valid_simpler_than_the_last_and_judged_once(
    seed: int, name: str
) -> None:
    failing, _ = SHAPES[name]
    rng = random.Random(seed)
    start = next(c for c in iter(lambda: draw(rng), None) if failing(c))
    seen: list[Case] = []
    current = start

    def watching(c: Case) -> bool:
        nonlocal current
        if seen:
            assert sort_key(c, AXES) < sort_key(current, AXES)
        assert make_case("toy", AXES, c.values, c.seed) == c
        assert c not in seen
        seen.append(c)
        if failing(c):
            current = c
        return failing(c)

    result = shrink(start, AXES, watching)
    assert result.case == current
    assert result.tried == len(seen) - 1
    assert [s.case for s in result.steps] == [c for c in seen[1:] if failing(c)]
    assert {s.how for s in result.steps} <= {name for name, _ in PASSES}


def test_judging_several_at_once_changes_nothing() -> None:
    def key(result: ShrinkResult) -> Any:
        return result.case, result.tried, result.steps, result.exhausted

    with ThreadPoolExecutor(4) as pool:
        for failing, _ in SHAPES.values():
            start = starts(failing, 1)[0]
            alone = shrink(start, AXES, failing)
            together = shrink(start, AXES, failing, map=pool.map, batch=5)
            eager = shrink(start, AXES, failing, map=lambda f, cs: [f(c) for c in cs], batch=64)
            assert key(alone) == key(together) == key(eager)
            capped = {
                key(shrink(start, AXES, failing, max_tries=7, batch=b)) for b in (1, 2, 3, 16)
            }
            assert len(capped) == 1


def test_a_cap_ends_it_with_the_simplest_so_far() -> None:
    failing, _ = SHAPES["three axes"]
    start = starts(failing, 1)[0]
    none = shrink(start, AXES, failing, max_tries=0)
    assert (none.case, none.tried, none.exhausted) == (start, 0, True)
    some = shrink(start, AXES, failing, max_tries=12)
    assert some.exhausted
    assert some.tried == 12
    assert sort_key(some.case, AXES) < sort_key(start, AXES)
    ticks = iter(range(1000))
    timed = shrink(start, AXES, failing, seconds=5, clock=lambda: float(next(ticks)))
    assert timed.exhausted
    assert 0 < timed.tried < 7
    whole = shrink(start, AXES, failing)
    enough = shrink(start, AXES, failing, max_tries=whole.tried)
    assert enough == whole


def test_the_simplest_case_stays_as_it_is() -> None:
    result = shrink(case(), AXES, lambda c: True)
    assert (result.case, result.tried, result.steps) == (case(), 0, ())


def test_a_case_that_does_not_fail_is_refused() -> None:
    with pytest.raises(UsageError, match="does not show the failure: nothing"):
        shrink(case(), AXES, lambda c: False)
    with pytest.raises(UsageError, match="in 5 runs"):
        shrink(case(), AXES, lambda c: False, repeats=5)


# --- unsteady failures --------------------------------------------------------------------------


def test_an_unsteady_failure_keeps_its_rate() -> None:
    rng = random.Random(4)

    def failing(c: Case) -> bool:
        if not c["rope"] or c["tokens"] < 5:
            return False
        return rng.random() < (0.6 if c["heads"] >= 8 else 0.02)

    start = case(rope=True, tokens=31, heads=17, k_scale=0.3, content="wide")
    result = shrink(start, AXES, failing, repeats=40)
    assert result.case == case(rope=True, tokens=5, heads=8)
    assert result.rates is not None
    assert result.rates.runs == 40
    assert result.rates.after >= result.rates.before / 2


def test_a_steady_failure_is_not_run_more_often_than_it_takes_to_tell() -> None:
    runs = 0

    def failing(c: Case) -> bool:
        nonlocal runs
        runs += 1
        return bool(c["rope"])

    result = shrink(case(rope=True, tokens=9), AXES, failing, repeats=10)
    assert result.case == case(rope=True)
    assert runs <= 10 + 10 + 6 * result.tried


# --- moves --------------------------------------------------------------------------------------


@given(st.integers(0, 300))
def test_descending_a_ladder_takes_ever_smaller_steps(count: int) -> None:
    rungs = list(descend(count))
    assert rungs == sorted(set(rungs))
    assert rungs[:1] == [0][:count]
    assert rungs[-1:] == [count - 1][:count]
    steps = [b - a for a, b in pairwise(rungs)]
    assert steps == sorted(steps, reverse=True)
    assert len(rungs) <= 10


@given(st.integers(0, 40))
def test_cuts_cover_every_item_and_end_with_single_ones(length: int) -> None:
    stretches = list(cuts(length))
    assert stretches[length and -length :] == [(i, i + 1) for i in range(length)]
    assert all(0 <= a < b <= length for a, b in stretches)


@settings(max_examples=200)
@given(st.data())
def test_moves_are_valid_simpler_and_distinct(data: st.DataObject) -> None:
    start = draw(random.Random(data.draw(st.integers(0, 2**32))))
    for axis in AXES:
        value = start[axis.name]
        moves = list(simpler(axis, value))
        assert len(moves) == len(set(moves))
        for move in moves:
            assert axis.check(move) == move
            assert axis.weight(move) < axis.weight(value)
        assert (axis.default in moves) == (
            value != axis.default and axis.weight(axis.default) < axis.weight(value)
        )


@settings(max_examples=200)
@given(st.floats(2.0**-12, 512.0), st.floats(2.0**-12, 512.0))
def test_a_scale_beyond_a_bound_becomes_the_simplest_beyond_it(bound: float, start: float) -> None:
    def failing(c: Case) -> bool:
        return bool(c["k_scale"] >= bound if bound >= 1 else c["k_scale"] <= bound)

    first = case(k_scale=start)
    if not failing(first):
        return
    found = shrink(first, AXES, failing).case["k_scale"]
    powers = [2.0**e for e in range(-12, 10)]
    beyond = [case(k_scale=p) for p in powers if failing(case(k_scale=p))]
    if beyond:
        assert found == min(beyond, key=lambda c: sort_key(c, AXES))["k_scale"]
