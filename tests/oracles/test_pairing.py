"""Directions: every rule of compare, on hand-made judgements."""

from __future__ import annotations

import pytest
import torch

from diffuzz.expected import ExpectedBits
from diffuzz.finding import Defect, Direction, Explanation, Judged, Kind, Measure, Verdict
from diffuzz.oracles import assess, compare, verdict
from diffuzz.outcome import Raised, Returned, Unsupported

BOTH, FIXED, REGRESSION = Direction.BOTH, Direction.FIXED, Direction.REGRESSION


def defect(
    what: str = "a",
    aspect: str = "key",
    kind: Kind = Kind.WRONG_RESULT,
    rms: float = 1.0,
    explained: bool = False,
) -> Defect:
    return Defect(
        kind,
        aspect,
        f"{kind.value}:{aspect}:{what}",
        "said",
        Measure(rms_ulp=rms),
        Explanation("h", "t", 1.0) if explained else None,
    )


def judged(*defects: Defect, right: str = "") -> Judged:
    return Judged(frozenset(right.split()), defects)


def directions(before: Judged, after: Judged) -> list[tuple[str, Direction]]:
    return [(d.signature.split(":")[2], way) for d, way in compare(before, after)]


RIGHT = judged(right="key value run")
ASSERTION = defect("f:a", "run", Kind.ASSERTION)
OTHER_ASSERTION = defect("f:b", "run", Kind.ASSERTION)
OUT_OF_BOUNDS = defect("f:x", "run", Kind.OUT_OF_BOUNDS)


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (RIGHT, RIGHT, []),
        # Outputs.
        (RIGHT, judged(defect(), right="value run"), [("a", REGRESSION)]),
        (judged(defect(), right="run"), RIGHT, [("a", FIXED)]),
        (judged(defect()), judged(defect()), [("a", BOTH)]),
        (judged(defect("b")), judged(defect("a")), [("a", BOTH)]),
        (
            judged(defect(aspect="value"), right="key"),
            judged(defect(), right="value"),
            [("a", REGRESSION), ("a", FIXED)],
        ),
        # How the run ended.
        (RIGHT, judged(ASSERTION), [("f", REGRESSION)]),
        (judged(ASSERTION), RIGHT, [("f", FIXED)]),
        (judged(ASSERTION), judged(ASSERTION), [("f", BOTH)]),
        (judged(OTHER_ASSERTION), judged(ASSERTION), [("f", BOTH)]),
        # The run came back, though its outputs were wrong or a sanitizer spoke.
        (judged(defect(), right="run"), judged(ASSERTION), [("f", REGRESSION), ("a", BOTH)]),
        (judged(OUT_OF_BOUNDS), judged(ASSERTION), [("f", REGRESSION)]),
        (RIGHT, judged(OUT_OF_BOUNDS, right="key value"), [("f", REGRESSION)]),
        (judged(OUT_OF_BOUNDS), judged(OUT_OF_BOUNDS), [("f", BOTH)]),
        # Outputs that the baseline never came to show.
        (judged(ASSERTION), judged(defect(), right="value run"), [("a", BOTH), ("f", FIXED)]),
    ],
)
def test_compare(before: Judged, after: Judged, wanted: list[tuple[str, Direction]]) -> None:
    assert directions(before, after) == wanted


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        (("values", 1.0), ("values", 2.5), REGRESSION),
        (("values", 1.0), ("values", 1.9), BOTH),
        (("values", 9.0), ("values", 1.0), BOTH),
        (("truncated", 1.0), ("through-e4m3", 40.0), REGRESSION),
        (("through-e4m3", 1.0), ("through-e4m3", 40.0), BOTH),
    ],
)
def test_a_materially_larger_loss_of_precision_is_a_regression(
    before: tuple[str, float], after: tuple[str, float], way: Direction
) -> None:
    made = [
        judged(defect(what, kind=Kind.PRECISION, rms=rms, explained=what != "values"))
        for what, rms in (before, after)
    ]
    assert directions(*made) == [(after[0], way)]


def test_a_wrong_result_in_place_of_a_loss_of_precision_is_no_regression() -> None:
    before = judged(defect("values", kind=Kind.PRECISION, rms=1.0))
    assert directions(before, judged(defect("zeros", rms=99.0))) == [("zeros", BOTH)]


def test_unknown_says_nothing() -> None:
    unknown = Judged(unknown="missing tl.foo")
    for pair in ((unknown, judged(defect())), (judged(defect()), unknown), (unknown, unknown)):
        assert compare(*pair) == []
        assert verdict(*pair, []) is Verdict.UNKNOWN


def test_verdicts() -> None:
    assert verdict(RIGHT, RIGHT, []) is Verdict.AGREE
    wrong = judged(defect())
    assert verdict(wrong, wrong, compare(wrong, wrong)) is Verdict.DIFFER
    assert verdict(RIGHT, wrong, compare(RIGHT, wrong)) is Verdict.DIFFER
    assert verdict(RIGHT, RIGHT, [(defect(), REGRESSION)]) is Verdict.DIFFER


def test_assess_puts_it_together() -> None:
    bits = torch.arange(6)
    expectations = {"x": ExpectedBits(bits)}
    good, bad = Returned({"x": bits.clone()}), Returned({"x": bits + 1})
    raised = Raised("AssertionError", "no", None)
    assert assess(good, good, expectations).verdict is Verdict.AGREE
    found = assess(good, bad, expectations)
    assert [(d.aspect, way) for d, way in found.differences] == [("x", REGRESSION)]
    assert [(d.aspect, way) for d, way in assess(raised, good, expectations).differences] == [
        ("run", FIXED)
    ]
    assert assess(good, Unsupported("gone"), expectations).verdict is Verdict.UNKNOWN


def test_the_signature_is_the_same_from_either_side() -> None:
    bits = torch.arange(6)
    expectations = {"x": ExpectedBits(bits)}
    good, bad = Returned({"x": bits.clone()}), Returned({"x": bits + 1})
    ((worse, _),) = assess(good, bad, expectations).differences
    ((fixed, way),) = assess(bad, good, expectations).differences
    assert worse.signature == fixed.signature
    assert way is FIXED
