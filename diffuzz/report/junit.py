"""JUnit XML, as Jenkins (its ``junit-10`` schema), GitLab, Azure and GitHub actions read it.

One suite for each target and arch. Its first test case stands for the cases as a whole, then
comes one for each finding, named by signature and direction so that its history can be followed,
and a skipped one for each reason why nothing could be told: skips are shown, passes are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from diffuzz.report.wording import clean, facts, is_red, ordered, plural, revision

# Kinds where the run did not come to an end: an error rather than a failed check.
_ERRORS = {"crash", "hang", "compile"}
_MESSAGE = 500


def junit(report: dict[str, Any], fail_on: str = "regression") -> str:
    """The document. Findings that ``fail_on`` does not cover, and those the corpus has as
    known, pass with their text as output."""
    suites = [_suite(report, item, fail_on) for item in report["targets"]]
    root = Element("testsuites", {"name": "diffuzz", **_sums(suites)})
    root.set("time", _seconds(sum(item["seconds"] for item in report["targets"])))
    root.extend(suites)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _sums(suites: list[Element]) -> dict[str, str]:
    """Counts for the root. ``skipped`` is not among them: the schema has it on suites only."""
    return {
        name: str(sum(int(suite.get(name, "0")) for suite in suites))
        for name in ("tests", "failures", "errors")
    }


def _suite(report: dict[str, Any], item: dict[str, Any], fail_on: str) -> Element:
    name = clean(f"diffuzz.{item['name']}.{item['arch']}")
    suite = Element("testsuite", name=name)
    properties = SubElement(suite, "properties")
    for key, text in _properties(report, item):
        SubElement(properties, "property", name=key, value=text)
    tests = list(_tests(name, item, fail_on))
    suite.extend(tests)
    counts = {
        "tests": len(tests),
        "failures": sum(test.find("failure") is not None for test in tests),
        "errors": sum(test.find("error") is not None for test in tests),
        "skipped": sum(test.find("skipped") is not None for test in tests),
    }
    for key, count in counts.items():
        suite.set(key, str(count))
    suite.set("time", _seconds(item["seconds"]))
    suite.set("timestamp", clean(report["started"])[:19])
    return suite


def _properties(report: dict[str, Any], item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "baseline", revision(report["baseline"])
    yield "candidate", revision(report["candidate"])
    yield "seed", str(report["seed"])
    yield "executor", clean(item["executor"])
    for side, value in item["slices"].items():
        yield f"slice.{side}", clean(value or "none")
    for name, side in item.get("native", {}).items():
        if side["note"]:
            yield f"native.{clean(name)}", clean(side["note"])
    for name, version in report["environment"].items():
        if version is not None:
            yield f"environment.{clean(name)}", clean(version)


def _tests(suite: str, item: dict[str, Any], fail_on: str) -> Iterator[Element]:
    yield _whole(suite, item)
    for finding in ordered(item["findings"]):
        yield _finding(suite, finding, fail_on)
    for reason, count in item["unknown_reasons"].items():
        test = _test(suite, f"could not tell: {clean(reason, _MESSAGE)}")
        what = plural(count, "case") if item["cases"] else "not tested"
        SubElement(test, "skipped", message=f"{what}: {clean(reason, _MESSAGE)}")
        yield test


def _whole(suite: str, item: dict[str, Any]) -> Element:
    """The test that stands for the cases: skipped, not passed, when none could be judged."""
    verdicts = item["verdicts"]
    test = _test(suite, "cases judged", item["seconds"])
    counts = ", ".join(f"{verdicts[name]:,} {name}" for name in ("agree", "differ", "unknown"))
    text = f"{plural(item['cases'], 'case')}: {counts}"
    if verdicts["agree"] + verdicts["differ"] == 0:
        SubElement(test, "skipped", message=f"no case could be judged: {text}")
    else:
        SubElement(test, "system-out").text = text
    return test


def _finding(suite: str, finding: dict[str, Any], fail_on: str) -> Element:
    test = _test(suite, f"{clean(finding['signature'], _MESSAGE)} [{finding['direction']}]")
    hits = plural(finding["cases_hit"], "case")
    message = f"{finding['direction']}: {clean(finding['message'], _MESSAGE)}"
    body = "\n".join(
        [
            f"{finding['direction']} {finding['kind']}, {hits}",
            clean(finding["message"], lines=True),
            *(f"{label}: {text}" for label, text in facts(finding)),
        ]
    )
    if is_red(fail_on, finding):
        tag = "error" if finding["kind"] in _ERRORS else "failure"
        SubElement(test, tag, type=finding["kind"], message=message).text = body
    else:
        SubElement(test, "system-out").text = body
    return test


def _test(suite: str, name: str, seconds: float = 0.0) -> Element:
    return Element("testcase", classname=suite, name=name, time=_seconds(seconds))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
