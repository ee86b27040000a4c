from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from diffuzz.case import Case, Choice, Flag, Int, IntList, Real
from diffuzz.expected import Expected, ExpectedBits
from diffuzz.finding import Verdict
from diffuzz.numerics.formats import FORMATS
from diffuzz.outcome import Raised, Returned, Unsupported
from diffuzz.report.pictures import SIDE, coverage, error_map, errors

BF16 = FORMATS["bf16"]
AXES = (
    Choice("cache", ("model", "fp8", "int8")),
    Flag("rope"),
    Int("tokens", 1, 100, boundaries=(15, 16, 17)),
    IntList("lengths", 0, 40, 1, 3, boundaries=(16,)),
    Real("scale", 1e-3, 1e3),
)


def case(**values: Any) -> Case:
    plain = {"cache": "model", "rope": False, "tokens": 1, "lengths": (1,), "scale": 1.0}
    return Case("t", {**plain, **values})


def counts(covered: dict[str, Any], axis: str, part: int = 0) -> dict[str, int]:
    found = next(item for item in covered["axes"] if item["name"] == axis)
    return {row["value"]: row["count"] for row in found["parts"][part]["values"]}


def test_values_that_were_never_drawn_are_counted_as_such():
    covered = coverage([case(), case(cache="fp8"), case(cache="fp8", rope=True)], AXES)
    assert covered["cases"] == 3
    assert counts(covered, "cache") == {"model": 1, "fp8": 2, "int8": 0}
    assert counts(covered, "rope") == {"false": 2, "true": 1}


def test_integers_are_counted_at_their_boundaries_and_between():
    covered = coverage([case(tokens=n) for n in (1, 2, 14, 15, 16, 16, 18, 99, 100)], AXES)
    assert counts(covered, "tokens") == {
        "1": 1, "2–14": 2, "15": 1, "16": 2, "17": 0, "18–99": 2, "100": 1,
    }  # fmt: skip


def test_lists_are_counted_by_length_and_by_items():
    covered = coverage([case(lengths=(0,)), case(lengths=(16, 16, 3))], AXES)
    assert counts(covered, "lengths") == {"1": 1, "2": 0, "3": 1}
    # A case counts once, however many of its items are in a range.
    assert counts(covered, "lengths", 1) == {"0": 1, "1–15": 1, "16": 1, "17–39": 0, "40": 0}


def test_scales_are_counted_by_what_kind_they_are():
    covered = coverage([case(scale=s) for s in (1.0, 0.5, 0.25, 4.0, 3.0, 0.037)], AXES)
    assert counts(covered, "scale") == {
        "other, below 1": 1,
        "power of two below 1": 2,
        "1": 1,
        "power of two above 1": 1,
        "other, above 1": 1,
    }


def test_cases_that_differ_are_counted_with_the_verdicts():
    cases = [case(), case(cache="fp8"), case(cache="fp8")]
    covered = coverage(cases, AXES, [Verdict.AGREE, Verdict.DIFFER, Verdict.UNKNOWN])
    rows = covered["axes"][0]["parts"][0]["values"]
    assert [(row["value"], row["count"], row["differ"]) for row in rows] == [
        ("model", 1, 0),
        ("fp8", 2, 1),
        ("int8", 0, 0),
    ]


def test_pairs_name_what_never_stood_together():
    pairs = coverage([case(), case(cache="fp8", rope=True)], AXES)["pairs"]
    assert (pairs["total"], pairs["drawn"]) == (6, 2)
    assert ["cache", "model", "rope", "true"] in pairs["missing"]
    assert len(pairs["missing"]) == 4


@pytest.mark.parametrize(
    "axis",
    [
        Int("n", 0, 1_000_000),
        Int("n", 0, 1_000_000, boundaries=tuple(range(0, 1000, 7))),
        Int("n", 5, 5),
        Int("n", -3, 300, boundaries=(0,)),
        IntList("n", 1, 8192, 0, 64),
    ],
)
def test_every_value_falls_into_exactly_one_of_few_bins(axis: Int | IntList):
    values = {
        *range(axis.low, min(axis.high, axis.low + 70) + 1),
        axis.high,
        (axis.low + axis.high) // 2,
    }
    for value in values:
        drawn = Case("t", {"n": (value,) if isinstance(axis, IntList) else value})
        for part in coverage([drawn], [axis])["axes"][0]["parts"]:
            assert sum(row["count"] for row in part["values"]) == 1
            assert len(part["values"]) <= 50


def test_no_cases_no_coverage():
    covered = coverage([], AXES, [])
    assert covered["cases"] == 0
    assert all(
        row["count"] == 0 for a in covered["axes"] for p in a["parts"] for row in p["values"]
    )


def expected(shape: tuple[int, ...], **changes: Any) -> Expected:
    return Expected(torch.ones(shape, dtype=torch.float64), BF16, **changes)


def test_a_head_shows_as_a_column_and_a_token_as_a_row():
    actual = torch.ones(5, 4, 8, dtype=torch.bfloat16)
    actual[:, 2] = 3.0
    actual[4] = 3.0
    tokens_heads, heads_dims = error_map(actual, expected((5, 4, 8)))["maps"]
    assert tokens_heads == {
        "rows": "dim 0: 5",
        "cols": "dim 1: 4",
        "cells": ["0090", "0090", "0090", "0090", "9999"],
    }
    assert heads_dims["cells"] == ["2" * 8, "2" * 8, "9" * 8, "2" * 8]


def test_a_large_output_is_brought_down_to_a_small_map():
    actual = torch.ones(1000, 300, dtype=torch.bfloat16)
    actual[:, 150:] = 2.0
    found = error_map(actual, expected((1000, 300)))["maps"][0]
    assert found["rows"] == f"dim 0: 1,000 in {SIDE} cells"
    assert len(found["cells"]) == SIDE
    assert set(found["cells"]) == {"0" * 32 + "9" * 32}


def test_one_wrong_element_and_one_right_one_both_show():
    actual = torch.ones(640, 640, dtype=torch.bfloat16)
    actual[0, 0] = 2.0
    assert error_map(actual, expected((640, 640)))["maps"][0]["cells"][0].startswith("10")
    actual.fill_(2.0)
    actual[0, 0] = 1.0
    assert error_map(actual, expected((640, 640)))["maps"][0]["cells"][0].startswith("89")


def test_dimensions_of_one_are_left_out_and_a_vector_is_one_row():
    actual = torch.ones(1, 6, 1, dtype=torch.bfloat16)
    actual[0, 3] = 2.0
    assert error_map(actual, expected((1, 6, 1)))["maps"] == [
        {"rows": "all: 1", "cols": "dim 1: 6", "cells": ["000900"]}
    ]


def test_elements_nobody_judges_are_neither_counted_nor_shown():
    actual = torch.full((2, 4), 9.0, dtype=torch.bfloat16)
    care = torch.zeros(2, 4, dtype=torch.bool)
    care[0] = True
    found = error_map(actual, expected((2, 4), care=care))
    assert found["maps"][0]["cells"] == ["9999", "...."]
    assert sum(row["count"] for row in found["histogram"]) == 4


def test_the_histogram_is_in_ulps_of_the_output():
    actual = torch.ones(8, dtype=torch.bfloat16)
    actual[1] += 2.0**-7  # one ulp of bf16 at 1
    actual[2] += 2.0**-6
    actual[3] = torch.inf
    actual[4] = torch.nan
    found = error_map(actual, expected((8,)))
    assert found["unit"] == "ulp of bf16"
    assert [(row["label"], row["count"], row["wrong"]) for row in found["histogram"]] == [
        ("0", 4, 0),
        ("≤ 0.5", 0, 0),
        ("≤ 1", 1, 1),
        ("≤ 2", 1, 1),
        ("not finite", 2, 2),
    ]


def test_right_within_the_slack_is_not_wrong():
    actual = torch.full((2, 2), 1.0 + 2.0**-7, dtype=torch.bfloat16)
    slack = torch.full((2, 2), 0.1, dtype=torch.float64)
    found = error_map(actual, expected((2, 2), slack=slack))
    assert found["histogram"][2] == {"label": "≤ 1", "count": 4, "wrong": 0}
    assert found["maps"][0]["cells"] == ["00", "00"]


def test_bits_are_counted_one_by_one():
    bits = torch.zeros(3, 4, dtype=torch.uint8)
    actual = bits.clone()
    actual[1, 2] = 0b1011
    found = error_map(actual, ExpectedBits(bits))
    assert found["unit"] == "differing bits"
    assert [row["count"] for row in found["histogram"]] == [11, 0, 0, 1]
    assert found["maps"][0]["cells"] == ["0000", "0090", "0000"]
    wide = torch.full((2, 2), -1, dtype=torch.int64)
    found = error_map(wide, ExpectedBits(torch.zeros(2, 2, dtype=torch.int64)))
    assert found["histogram"][-1] == {"label": "≤ 64", "count": 4, "wrong": 4}


@pytest.mark.parametrize(
    ("actual", "note"),
    [
        (torch.ones(2, 3, dtype=torch.bfloat16), "shape [2, 3] instead of [2, 2]"),
        (torch.ones(2, 2, dtype=torch.int32), "a tensor of torch.int32 does not hold bf16"),
    ],
)
def test_what_cannot_be_compared_has_a_note(actual: torch.Tensor, note: str):
    found = error_map(actual, expected((2, 2)))
    assert found["note"] == note
    assert found["histogram"] == found["maps"] == []


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 4), (1, 1), (2, 3, 4, 5, 6, 7, 8)])
def test_every_shape_gives_a_small_picture(shape: tuple[int, ...]):
    found = error_map(torch.ones(shape, dtype=torch.bfloat16), expected(shape))
    assert len(json.dumps(found)) < 30_000
    assert len(found["histogram"]) <= 32
    assert len(found["maps"]) <= 4
    assert all(len(set(map(len, item["cells"]))) <= 1 for item in found["maps"])


def test_errors_of_both_revisions_where_there_is_an_output():
    expectations = {"value": expected((2, 2))}
    right = Returned({"value": torch.ones(2, 2, dtype=torch.bfloat16)})
    wrong = Returned({"value": torch.full((2, 2), 2.0, dtype=torch.bfloat16)})
    found = errors("value", right, wrong, expectations)
    assert found is not None
    assert found["baseline"]["maps"][0]["cells"] == ["00", "00"]
    assert found["candidate"]["maps"][0]["cells"] == ["99", "99"]
    raised = Raised("AssertionError", "no", None)
    assert errors("value", right, raised, expectations)["candidate"] is None
    assert errors("value", Unsupported("lost"), wrong, expectations)["baseline"] is None
    assert errors("run", right, raised, expectations) is None
