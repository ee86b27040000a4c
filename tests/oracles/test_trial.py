"""Trying hypotheses together must say what trying them one by one says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.numerics.error import read_output, right_elements
from diffuzz.numerics.formats import E4M3FN, E4M3FNUZ, FP16, FloatFormat
from diffuzz.oracles import assess, trial
from diffuzz.oracles.evidence import Evidence, gather_evidence
from diffuzz.oracles.explain import SCREENED, _screened
from diffuzz.oracles.hypotheses import Hypotheses
from diffuzz.outcome import Returned

from .kernels import Paged, Write, gather, write

GATHER = [
    "through float8_e4m3fn",
    "slot+1 through float8_e5m2 saturating",
    "head+1 missing scale",
    "read as OCP",
    "nan injected doubled",
    "shuffled",
]
WRITE = ["as FNUZ", "not saturated", "slot+1"]
# Large scales overflow the narrow formats, small ones vanish in them.
SCALES = [0.37, 900.0, 0.0004]


def about(output: Tensor, expected: Expected) -> Evidence:
    values = read_output(output, expected.fmt)
    return gather_evidence(output, values, expected, ~right_elements(values, expected))


def evidence(fault: str, scale: float, fmt: FloatFormat = FP16) -> Evidence:
    if fault in WRITE:
        case = Write(scale=scale, spread=400 * scale)
        expected = case.expected()["written"]
        assert isinstance(expected, Expected)
        return about(write(case, fault)["written"], expected)
    stored = E4M3FNUZ if "OCP" in fault else E4M3FN
    paged = Paged(k_scale=scale, fmt=stored, out=fmt, rows=66)
    return about(gather(paged, fault), paged.expected())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("fault", [*GATHER, *WRITE])
@pytest.mark.parametrize("mistakes", [1, 2])
def test_rows_together_and_one_by_one(
    fault: str, scale: float, mistakes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = evidence(fault, scale)
    hypotheses = Hypotheses.about(given)
    rows = hypotheses.with_mistakes(mistakes)[:: 3 * mistakes - 2]
    at = given.screen
    for bitwise in (False, True):
        together = trial.attempt(given, hypotheses, rows, at, bitwise=bitwise)
        with monkeypatch.context() as patch:
            patch.setattr(trial, "BATCH", 5 * at.numel())
            patch.setattr(trial, "SMALL", 2**40)
            apart = trial.attempt(given, hypotheses, rows, at, bitwise=bitwise)
        single = [trial.attempt(given, hypotheses, r[None], at, bitwise=bitwise) for r in rows[:40]]
        assert torch.equal(together.known, apart.known)
        assert torch.equal(together.right, apart.right)
        assert together.right[:40].tolist() == [int(one.right) for one in single]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("fault", [*GATHER, *WRITE])
def test_the_handful_drops_nobody_who_passes_the_screen(fault: str, scale: float) -> None:
    given = evidence(fault, scale)
    hypotheses = Hypotheses.about(given)
    for mistakes in (1, 2):
        rows = hypotheses.with_mistakes(mistakes)
        passing = rows[trial.attempt(given, hypotheses, rows, given.screen).shares >= SCREENED]
        kept = _screened(given, hypotheses, rows).tolist()
        assert all(row in kept for row in passing.tolist())


def test_the_truth_itself_holds_on_what_is_right() -> None:
    given = evidence("tail", 0.37)
    plain = torch.zeros((1, 4), dtype=torch.int64)
    for bitwise in (False, True):
        found = trial.attempt(given, Hypotheses.about(given), plain, given.right, bitwise=bitwise)
        assert float(found.shares) == 1.0


def test_equal_outputs_are_judged_once_and_alike() -> None:
    case = Paged()
    stated, calls = case.expected(), []

    def missing() -> Tensor:
        calls.append(1)
        return stated.hypotheses["k_scale missing"]()

    expected = replace(stated, hypotheses={"k_scale missing": missing})
    wrong = gather(case, "missing scale")
    both = assess(Returned({"key": wrong}), Returned({"key": wrong.clone()}), {"key": expected})
    assert both.baseline == both.candidate
    assert both.baseline.defects[0].signature == "wrong-result:key:k_scale-missing"
    other = gather(case, "doubled")
    apart = assess(Returned({"key": wrong}), Returned({"key": other}), {"key": expected})
    assert apart.baseline == both.baseline
    assert apart.candidate != both.candidate
    assert len(calls) == 2
