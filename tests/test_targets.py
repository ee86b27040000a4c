"""The contract every target fulfils, own or a third party's: found by itself, tested by these."""

from __future__ import annotations

import pytest
import torch

from diffuzz import discovery
from diffuzz.arch import ARCHS, get_arch
from diffuzz.case import make_case, sort_key
from diffuzz.expected import Expected, ExpectedBits
from diffuzz.generate import draw_cases
from diffuzz.target import Target

from . import toy

NAMES = discovery.names((toy.TARGETS,))


@pytest.fixture(params=NAMES)
def target(request: pytest.FixtureRequest) -> Target:
    return discovery.load(request.param, (toy.TARGETS,))


def test_own_targets_are_found() -> None:
    assert {"k3_decode", "rocm_gather"} <= set(discovery.names())


def test_declaration(target: Target) -> None:
    assert target.summary
    assert target.archs
    assert set(target.archs) <= set(ARCHS)
    assert len({axis.name for axis in target.axes}) == len(target.axes)
    assert any(not entry.optional for entry in target.entries)


def test_cases_are_allowed_settled_and_reproducible(target: Target) -> None:
    cases = draw_cases(target, count=60, seed=7)
    assert len(cases) == 60
    assert cases == draw_cases(target, count=60, seed=7)
    assert [c.id for c in cases] != [c.id for c in draw_cases(target, count=60, seed=8)]
    for case in cases:
        assert target.allowed(case) is None
        assert target.settle(case) == case
        again = make_case(target.name, target.axes, case.to_dict()["values"], case.seed)
        assert again.id == case.id


def test_every_option_of_every_choice_is_drawn(target: Target) -> None:
    cases = draw_cases(target, count=200, seed=0)
    for axis in target.axes:
        if hasattr(axis, "options"):
            assert {case[axis.name] for case in cases} == set(axis.options), axis.name


def test_inputs_and_truth_are_pure(target: Target) -> None:
    for case in draw_cases(target, count=12, seed=1):
        for name in target.archs:
            arch = get_arch(name)
            inputs, again = target.inputs(case, arch), target.inputs(case, arch)
            for key, value in inputs.items():
                if isinstance(value, torch.Tensor):
                    assert _same(value, again[key]), key
                else:
                    assert value == again[key], key
            before = {k: v.clone() for k, v in inputs.items() if isinstance(v, torch.Tensor)}
            expected = target.expected(case, arch, inputs)
            assert expected
            for key, value in before.items():
                assert _same(value, inputs[key]), f"expected() changed {key}"
            for output in expected.values():
                _check_expectation(output)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype == torch.bool:
        return torch.equal(one, other)
    flat = [t.contiguous().reshape(-1).view(torch.uint8) for t in (one, other)]
    return one.shape == other.shape and torch.equal(*flat)


def _check_expectation(output: Expected | ExpectedBits) -> None:
    if isinstance(output, ExpectedBits):
        assert output.meaning
        return
    assert output.value.dtype == torch.float64
    if output.slack is not None:
        assert output.slack.shape == output.value.shape
        assert bool((output.slack >= 0).all())
    for name, hypothesis in output.hypotheses.items():
        assert hypothesis().shape == output.value.shape, name


def test_default_case_is_the_simplest(target: Target) -> None:
    plain = target.settle(make_case(target.name, target.axes, {}))
    assert target.allowed(plain) is None
    for case in draw_cases(target, count=30, seed=2):
        assert sort_key(plain, target.axes) <= sort_key(case, target.axes)
