"""How runs end: kinds, messages and signatures that survive sizes, addresses and moved lines."""

from __future__ import annotations

import pytest

from diffuzz.finding import Defect, Kind
from diffuzz.oracles import judge
from diffuzz.oracles.sanity import ran
from diffuzz.oracles.wording import is_unexplained, normalise, percent, same_defect, slug
from diffuzz.outcome import (
    CompileFailed,
    Crashed,
    Location,
    Outcome,
    Raised,
    Report,
    Returned,
    TimedOut,
    Unsupported,
)


def at(line: int, function: str = "decode") -> Location:
    return Location("vllm/toy/backend.py", line, function)


def one(outcome: Outcome) -> Defect:
    judged = judge(outcome, {})
    assert judged.unknown is None
    assert judged.right == frozenset()
    (defect,) = judged.defects
    assert defect.aspect == "run"
    return defect


def test_an_assertion_keeps_its_text_and_place() -> None:
    defect = one(Raised("AssertionError", "head size must be 64, got 96", at(120)))
    assert defect.kind is Kind.ASSERTION
    assert defect.message == (
        "AssertionError: head size must be 64, got 96 at vllm/toy/backend.py:120"
    )
    assert defect.signature == "assertion:run:decode:head size must be N, got N"
    assert defect.location == at(120)


def test_an_assertion_without_text_shows_its_source_line() -> None:
    defect = one(Raised("AssertionError", "", at(7), "assert q.shape[0] == n"))
    assert "assert q.shape[0] == n" in defect.message
    assert defect.signature == "assertion:run:decode:assert q.shape[N] == n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            Raised("AssertionError", "head size must be 64, got 96", at(120)),
            Raised("AssertionError", "head size must be 128, got 7", at(99)),
        ),
        (
            Raised("RuntimeError", "bad pointer 0x7f12ab at /tmp/a/b.py:12, shape [3, 4]", at(1)),
            Raised("RuntimeError", "bad pointer 0x99 at /home/me/x.py:7, shape [3, 4, 5]", at(2)),
        ),
        (
            CompileFailed("x.ttir:12:3: error: no op", at(1)),
            CompileFailed("x.ttir:9:1: error: no op"),
        ),
        (Crashed("signal 11 (SIGSEGV)"), Crashed("signal 11")),
        (TimedOut(10), TimedOut(30.5)),
    ],
)
def test_signatures_do_not_depend_on_the_case(first: Outcome, second: Outcome) -> None:
    a, b = one(first).signature, one(second).signature
    if isinstance(first, CompileFailed):  # only one of them knows its function
        b = b.replace("compile:run:", "compile:run:decode:")
    assert a == b


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Raised("AssertionError", "a is b", at(1)), Raised("AssertionError", "a is c", at(1))),
        (Raised("ValueError", "x", at(1, "f")), Raised("ValueError", "x", at(1, "g"))),
        (Raised("ValueError", "x", at(1)), Raised("KeyError", "x", at(1))),
        (Raised("T", "float8_e4m3fn", at(1)), Raised("T", "float8_e5m2", at(1))),
        (Crashed("signal 11"), Crashed("signal 6")),
    ],
)
def test_signatures_tell_different_defects_apart(first: Outcome, second: Outcome) -> None:
    assert one(first).signature != one(second).signature


def test_other_ends() -> None:
    assert one(Raised("TypeError", "no", at(3))).kind is Kind.CRASH
    assert one(CompileFailed("refused")).kind is Kind.COMPILE
    crashed = one(Crashed("signal 11", "line one\nFatal: heap broken\n"))
    assert crashed.kind is Kind.CRASH
    assert crashed.message == "the process died: signal 11 (Fatal: heap broken)"
    assert one(TimedOut(10.0)).message == "still running after 10 s"
    assert one(TimedOut(10.0)).kind is Kind.HANG


def test_machinery_trouble_is_unknown() -> None:
    assert judge(Unsupported("missing tl.foo"), {}).unknown == "missing tl.foo"
    for name in ("MemoryError", "torch.OutOfMemoryError", "OutOfMemoryError"):
        assert judge(Raised(name, "tried to allocate", at(1)), {}).unknown == "out of memory"
    with pytest.raises(TypeError, match="str is not an outcome"):
        judge("oops", {})  # type: ignore[arg-type]


def test_sanitizer_reports() -> None:
    reports = (
        Report("out-of-bounds", "load of element 70 of 64", "cache", at(5, "kernel"), (3, 0)),
        Report("out-of-bounds", "load of element 99 of 64", "cache", at(5, "kernel"), (4, 0)),
        Report("race", "two programs write element 3", "out", at(9, "kernel")),
        Report("uninitialised", "element 3 is read", "out", at(9, "kernel")),
    )
    judged = judge(Returned({}, reports), {})
    assert judged.right == frozenset()
    assert [(d.kind, d.signature) for d in judged.defects] == [
        (Kind.OUT_OF_BOUNDS, "out-of-bounds:run:kernel:cache"),
        (Kind.RACE, "race:run:kernel:out"),
        (Kind.WRONG_RESULT, "wrong-result:run:uninitialised:kernel:out"),
    ]
    assert judged.defects[0].message == (
        "out-of-bounds (cache): load of element 70 of 64, program (3, 0)"
        " at vllm/toy/backend.py:5 (and 1 more like it)"
    )
    assert ran(judged)
    assert not ran(judge(Crashed("signal 11"), {}))


def test_a_report_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'mystery', which is not a kind of finding"):
        judge(Returned({}, (Report("mystery", "?"),)), {})


def test_outputs_are_judged_beside_reports() -> None:
    import torch

    from diffuzz.expected import ExpectedBits

    outcome = Returned({"x": torch.zeros(3)}, (Report("race", "two writes", "x"),))
    judged = judge(outcome, {"x": ExpectedBits(torch.zeros(3))})
    assert judged.right == {"x"}
    assert [d.kind for d in judged.defects] == [Kind.RACE]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        ("\n\n  second line 3\nthird", "second line N"),
        ("size (3, 4, 5) != (3,)", "size (N) != (N)"),
        ("expected torch.float8_e4m3fn on gfx942", "expected torch.float8_e4m3fn on gfx942"),
        ("1e-5 above -0.25 at 12:30", "N above N at N:N"),
        ("x" * 300, "x" * 120),
    ],
)
def test_normalise(text: str, wanted: str) -> None:
    assert normalise(text) == wanted


def test_slug_holds_no_colon_and_no_number() -> None:
    assert slug("k_scale: applied 2 times") == "k_scale--applied-n-times"


@pytest.mark.parametrize(
    ("part", "whole", "wanted"),
    [
        (0, 0, "0 %"),
        (0, 9, "0 %"),
        (9, 9, "100 %"),
        (99999, 100000, "99.9 %"),
        (1, 100000, "under 0.1 %"),
        (1, 3, "33.3 %"),
    ],
)
def test_percent_never_rounds_to_all_or_nothing(part: int, whole: int, wanted: str) -> None:
    assert percent(part, whole) == wanted


def test_same_defect_folds_the_unexplained_only() -> None:
    assert same_defect("precision:key:through-e4m3", "precision:key:values")
    assert same_defect("precision:key:values", "precision:key:values")
    assert not same_defect("precision:key:through-e4m3", "precision:key:truncated")
    assert not same_defect("precision:key:values", "wrong-result:key:values")
    assert not same_defect("precision:key:values", "precision:value:values")
    assert not same_defect("assertion:run:f:a: b", "assertion:run:f:a: c")


def test_is_unexplained() -> None:
    for what in ("values", "not-finite", "finite", "other-non-finite"):
        assert is_unexplained(f"non-finite:key:{what}")
    for signature in ("precision:key:through-e4m3", "assertion:run:f:values", "hang:run:timeout"):
        assert not is_unexplained(signature)
