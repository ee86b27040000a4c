from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from diffuzz.report.junit import junit
from tests.report import sample

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))


def parsed(report: dict[str, Any], fail_on: str = "regression") -> Any:
    root = etree.fromstring(junit(report, fail_on).encode())
    SCHEMA.assertValid(root)
    return root


def outcomes(root: Any) -> dict[str, list[str]]:
    """Test case name -> tags of what it holds."""
    return {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}


def test_a_regression_fails_and_a_crash_is_an_error():
    found = outcomes(parsed(sample.usual()))
    assert found["wrong-result:value:sign-2 [regression]"] == ["failure"]
    assert found["crash:value:sign-3 [regression]"] == ["error"]


def test_other_directions_pass_with_their_text_unless_any_fails():
    found = outcomes(parsed(sample.usual()))
    assert found["precision:value:sign-1 [fixed]"] == ["system-out"]
    assert found["wrong-result:value:sign-4 [both]"] == ["system-out"]
    found = outcomes(parsed(sample.usual(), "any"))
    assert found["precision:value:sign-1 [fixed]"] == ["failure"]
    assert found["wrong-result:value:sign-4 [both]"] == ["failure"]


def test_never_fails_nothing_but_still_tells():
    root = parsed(sample.usual(), "never")
    assert not list(root.iter("failure")) + list(root.iter("error"))
    assert "number 2" in "".join(root.itertext())


def test_what_the_corpus_knows_passes_and_is_still_shown():
    known = {"entry": "x", "red": False, "text": "known until 2030-01-01: accepted"}
    root = parsed(sample.report(sample.target(findings=[sample.finding(1, known=known)])), "any")
    assert not list(root.iter("failure"))
    assert "corpus: known until 2030-01-01: accepted" in "".join(root.itertext())


def test_what_could_not_be_told_is_skipped_never_passed():
    root = parsed(sample.usual())
    found = outcomes(root)
    assert found["could not tell: unsupported op tt.dot_scaled"] == ["skipped"]
    untested = root.find("testsuite[@name='diffuzz.decode.sm100']")
    assert [child.tag for case in untested.iter("testcase") for child in case] == ["skipped"] * 2
    reasons = [child.get("message") for child in untested.iter("skipped")]
    assert "no case could be judged" in reasons[0]
    assert reasons[1] == "not tested: new parameter rope_scale"


def test_counts_are_those_of_the_test_cases():
    root = parsed(sample.usual())
    for suite in root.iter("testsuite"):
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(count)) == len(suite.findall(f"testcase/{tag}"))
    assert root.get("tests") == str(len(list(root.iter("testcase"))))
    assert (root.get("failures"), root.get("errors")) == ("1", "1")


def test_a_failure_says_where_how_and_who():
    root = parsed(sample.usual())
    text = root.find(".//failure").text
    for said in (
        "vllm/ops/gather.py:150 in gather_cache",
        "cache=fp8 rope=false lengths=[1,17] scale=0.5",
        "equals the truth shifted by a page (100 % of wrong elements)",
        "OneImpl, OtherImpl (conditional)",
        "cccccccccccc (2026-05-06) Tidy the gather",
        "diffuzz replay 'findings/a b.yaml' --revision candidate",
    ):
        assert said in text


def test_names_are_unique_within_a_suite():
    same = [sample.finding(1, "fixed"), sample.finding(1, "regression"), sample.finding(1, "both")]
    assert len(outcomes(parsed(sample.report(sample.target(findings=same))))) == 4


def test_a_run_without_targets_is_still_valid():
    assert parsed(sample.report()).get("tests") == "0"


@pytest.mark.parametrize("fail_on", ["regression", "never"])
def test_hostile_text_stays_text(fail_on: str):
    report = {**sample.hostile(), "started": "2026-11-29T14:58:37+00:00"}
    root = parsed(report, fail_on)
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "properties", "property", "testcase", "failure", "skipped",
        "system-out",
    }  # fmt: skip
    text = "".join(root.itertext())
    assert "window.pwned=1" in text
    assert "\\x00" in text
    assert "\\ud800" in text
    assert "\x1b" not in text
