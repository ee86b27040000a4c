from __future__ import annotations

import pytest

from diffuzz.report.wording import case, clean, is_red, number, shrunk, value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;u\x1b\\y", "xy"),
        ("\x1b", "\\x1b"),
        ("a\x00b\x7fc\x85", "a\\x00b\\x7fc\\x85"),
        ("\u202eevil\u2066\ufeff", "\\u202eevil\\u2066\\ufeff"),
        ("\ud800\ufffe", "\\ud800\\ufffe"),
        ("  a \t b\r\nc ", "a b c"),
        ("größe ≤ 1 → 🔴", "größe ≤ 1 → 🔴"),
    ],
)
def test_clean_shows_what_cannot_be_carried(text: str, shown: str):
    assert clean(text) == shown


def test_clean_keeps_lines_only_when_asked():
    assert clean("\na  \r\n b\n\n", lines=True) == "a\n b"


def test_clean_cuts_and_counts():
    assert clean("x" * 12, 10) == "xxxxxxxxxx … (2 more characters)"
    assert clean("x" * 10, 10) == "x" * 10


def test_fail_on_decides_what_is_red():
    red = {
        (mode, way): is_red(mode, {"direction": way})
        for mode in ("regression", "any", "never")
        for way in ("regression", "both", "fixed")
    }
    assert [key for key, is_red in red.items() if is_red] == [
        ("regression", "regression"),
        ("any", "regression"),
        ("any", "both"),
        ("any", "fixed"),
    ]


def test_what_the_corpus_knows_is_red_only_once_it_says_so():
    finding = {"direction": "regression", "known": {"red": False, "text": "known until 2030-01-01"}}
    assert not is_red("any", finding)
    assert is_red("any", {**finding, "known": {"red": True, "text": "was fixed in v2"}})


def test_a_case_shows_what_is_off_default_where_that_is_known():
    values = {"a": 1, "b": [1, 2], "c": False}
    assert case({"case": {"values": values}}) == "a=1 b=[1,2] c=false"
    assert case({"case": {"values": values, "off_default": ["b"]}}) == "b=[1,2]"
    assert case({"case": {"values": values, "off_default": []}}) == "every axis at its default"


def test_shrinking_says_how_far_it_came():
    assert shrunk({}) is None
    assert shrunk({"shrunk": {"tried": 0, "why": "did not show again"}}) == "did not show again"
    rates = {"runs": 8, "before": 5, "after": 6}
    assert shrunk({"shrunk": {"tried": 40, "complete": False, "rates": rates}}) == (
        "40 cases tried, stopped when its time was up; fails in 6 of 8 runs"
    )


def test_values_and_numbers_for_reading():
    assert value([1, [True, None]]) == "[1, [true, none]]"
    assert [number(x) for x in (1234567, 0.00012345, 1133.4538, None, "inf", True)] == [
        "1,234,567", "0.0001234", "1,133", "–", "inf", "True",
    ]  # fmt: skip
