"""What a case is, and which of two is simpler."""

from __future__ import annotations

import math
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffuzz.case import (
    Case,
    Choice,
    Flag,
    Int,
    IntList,
    Real,
    float32,
    make_case,
    shortest32,
    significant_digits,
    sort_key,
)
from diffuzz.errors import CaseError

AXES = (
    Choice("dtype", ("bf16", "fp16")),
    Flag("rope"),
    Int("tokens", 0, 33, (0, 1, 32), plain=1),
    IntList("lens", 0, 70, 1, 4, (0, 16)),
    Real("scale", 2.0**-12, 512.0, (1 / 3,)),
)


def case(seed: int = 0, **values: object) -> Case:
    return make_case("toy", AXES, values, seed)


def simplest_first(name: str, *values: object) -> list[object]:
    ordered = sorted((case(**{name: v}) for v in values), key=lambda c: sort_key(c, AXES))
    return [c[name] for c in ordered]


def test_the_id_depends_on_values_and_seed_only() -> None:
    assert case().id == case(tokens=1, dtype="bf16").id
    assert case().id != case(seed=1).id
    assert case(lens=[3, 4]) == case(lens=(3, 4))
    # Written down so that a change of the tool cannot change the ids of stored cases unseen.
    assert case(tokens=7, scale=0.1, seed=5).id == "8672561553be"


@pytest.mark.parametrize(
    ("values", "seed", "message"),
    [
        ({"color": 1}, 0, "color: toy has no such axis"),
        ({"dtype": "fp64"}, 0, "dtype: 'fp64' is not one of bf16, fp16"),
        ({"rope": 1}, 0, "rope: 1 is not one of"),
        ({"tokens": True}, 0, "tokens: True is not an integer"),
        ({"tokens": 34}, 0, "tokens: 34 is not an integer in [0, 33]"),
        ({"lens": []}, 0, "lens: 0 entries"),
        ({"lens": [1, 71]}, 0, "lens: 71 is not"),
        ({"lens": "1"}, 0, "lens: '1' is not a list"),
        ({"scale": "1"}, 0, "scale: '1' is not a number"),
        ({"scale": math.nan}, 0, "scale: nan is not"),
        ({"scale": math.inf}, 0, "scale: inf is not"),
        ({"scale": 10**400}, 0, "scale: 1000"),
        ({"scale": 0}, 0, "scale: 0 is not a positive"),
        ({"scale": 513.0}, 0, "scale: 513.0 is not"),
        ({}, -1, "seed: -1 is not"),
        ({}, 2**32, "seed: 4294967296 is not"),
    ],
)
def test_what_breaks_the_declaration_is_refused(
    values: dict[str, object], seed: int, message: str
) -> None:
    with pytest.raises(CaseError, match="^" + re.escape(message)):
        make_case("toy", AXES, values, seed)


@given(st.floats(2.0**-12, 512.0))
def test_a_scale_is_kept_as_the_shortest_decimal_of_its_float32(value: float) -> None:
    kept = case(scale=value)["scale"]
    assert float32(kept) == float32(value)
    assert case(scale=kept)["scale"] == kept
    assert significant_digits(kept) <= 9
    for digits in range(significant_digits(kept) - 1):
        assert float32(float(f"{kept:.{digits}e}")) != float32(value)


def test_the_ends_of_the_float32_range_are_scales_too() -> None:
    everything = Real("r", 2.0**-149, 3.4028234663852886e38)
    for end in (everything.low, everything.high):
        kept = everything.check(end)
        assert everything.check(kept) == kept
        assert float32(kept) == end
    with pytest.raises(CaseError):
        everything.check(3.5e38)
    assert shortest32(1 / 3) == 0.33333334


def test_fewer_axes_off_their_defaults_come_first() -> None:
    far = case(tokens=33)
    two = case(tokens=2, rope=True)
    assert sort_key(case(), AXES) < sort_key(far, AXES) < sort_key(two, AXES)


def test_the_order_within_each_axis() -> None:
    assert simplest_first("dtype", "fp16", "bf16") == ["bf16", "fp16"]
    assert simplest_first("tokens", 3, 0, 2, 1) == [1, 2, 0, 3]
    lists = [(2, 1), (1, 1), (1,), (5,), (1, 2), (0, 1)]
    assert simplest_first("lens", *lists) == [(1,), (5,), (1, 1), (1, 2), (2, 1), (0, 1)]
    scales = [0.5, 3.0, 0.3, 2.0, 1.0, 0.33, 512.0, 1.5, 0.25, 0.33333334]
    ordered = [1.0, 2.0, 0.5, 0.25, 512.0, 3.0, 0.3, 1.5, 0.33, 0.33333334]
    assert simplest_first("scale", *scales) == ordered


def test_a_power_of_two_counts_as_one_however_long_its_decimal_is() -> None:
    kept = case(scale=2.0**-12)["scale"]
    assert kept != 2.0**-12
    assert simplest_first("scale", 3.0, kept) == [kept, 3.0]


def test_the_seed_decides_last() -> None:
    assert sort_key(case(seed=9), AXES) < sort_key(case(seed=0, tokens=2), AXES)
    assert sort_key(case(seed=1), AXES) < sort_key(case(seed=2), AXES)


def test_no_two_cases_are_equally_simple() -> None:
    small = (
        Choice("c", (False, True)),
        Int("i", -2, 3, plain=1),
        IntList("l", -1, 3, 0, 3),
    )
    items = [t for size in range(4) for t in product(range(-1, 4), repeat=size)]
    keys = {
        sort_key(make_case("toy", small, {"c": c, "i": i, "l": t}), small)[:-1]
        for c in (False, True)
        for i in range(-2, 4)
        for t in items
    }
    assert len(keys) == 2 * 6 * len(items)
