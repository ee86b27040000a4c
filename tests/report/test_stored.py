from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from diffuzz.errors import UsageError
from diffuzz.report.stored import read_report
from tests.report import sample


def store(folder: Path, report: Any) -> Path:
    (folder / "report.json").write_text(json.dumps(report))
    return folder


def test_a_stored_report_comes_back_as_it_was(run_folder: Path):
    report = sample.usual()
    assert read_report(store(run_folder, report)) == report


def test_fields_it_does_not_know_are_kept(run_folder: Path):
    report = {**sample.usual(), "later": {"a": [1]}}
    assert read_report(store(run_folder, report))["later"] == {"a": [1]}


def test_a_timeline_in_the_folder_is_part_of_the_report(run_folder: Path):
    entry = {"commit": "1", "date": "2026-01-01", "subject": "s", "verdict": "agree"}
    entries = [{**entry, "measure": None}]
    (run_folder / "timeline.json").write_text(json.dumps(entries))
    assert read_report(store(run_folder, sample.usual()))["timeline"] == entries
    (run_folder / "timeline.json").write_text('[{"commit": 1}]')
    with pytest.raises(UsageError, match=r"timeline.json: \[0\].commit is 1, not text"):
        read_report(run_folder)


def test_what_the_timeline_command_writes_is_understood(run_folder: Path):
    def variant(*cells: tuple[str, Any], **names: str) -> dict[str, Any]:
        verdicts = [{"verdict": v, "measure": m and {"max_ulp": m}, "what": []} for v, m in cells]
        return {**names, "slice": "x", "verdicts": verdicts}

    made = {"commit": "1" * 40, "date": "2026-01-01T00:00:00", "subject": "s"}
    document = {
        "target": "gather",
        "variants": [
            variant(("right", 0.5), ("right", 0.25), **made),
            variant(("right", 0.5), ("unknown", None), **made),
            variant(("unknown", None), ("wrong", "inf"), ("wrong", 7.0), **made),
            variant(release="0.20.0"),
        ],
    }
    (run_folder / "timeline.json").write_text(json.dumps(document))
    found = read_report(store(run_folder, sample.usual()))["timeline"]
    assert [(entry["verdict"], entry["measure"]) for entry in found] == [
        ("right", {"max_ulp": 0.5}),
        ("unknown", {"max_ulp": 0.5}),
        ("wrong", {"max_ulp": "inf"}),
        ("unknown", None),
    ]
    assert found[3]["commit"] == "0.20.0"


def test_no_folder_and_no_report_in_it(tmp_path: Path):
    with pytest.raises(UsageError, match="no such folder"):
        read_report(tmp_path / "absent")
    with pytest.raises(UsageError, match=r"no report\.json in it"):
        read_report(tmp_path)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "report.json:1: not JSON: Expecting value"),
        (b'{"schema": 1,\n "seed": }', "report.json:2: not JSON"),
        (b"\xff\xfe{}", "report.json: not UTF-8 text (byte 0)"),
        (b"[" * 200_000, "report.json: not JSON that can be read"),
        (b"9" * 100_000, "report.json: not JSON that can be read"),
        (b"[]", "report.json: not a report"),
        (b'{"schema": 2}', "report.json: schema 2 is not 1"),
        (b'{"schema": 1}', "report.json: environment is missing"),
    ],
)
def test_what_is_not_a_report_is_refused_in_one_line(run_folder: Path, raw: bytes, said: str):
    (run_folder / "report.json").write_bytes(raw)
    with pytest.raises(UsageError) as caught:
        read_report(run_folder)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("seed",), "7", "seed is '7', not an integer"),
        (("seed",), True, "seed is True, not an integer"),
        (("targets",), {}, "targets is {}, not a list"),
        (("targets", 0, "cases"), None, "targets[0].cases is None, not an integer"),
        (("targets", 0, "unknown_reasons"), {"a": "b"}, "unknown_reasons.a is 'b', not an integer"),
        (("findings", 0, "direction"), "up", "is 'up', not one of both, fixed, regression"),
        (("findings", 1, "location"), {"file": "x"}, "findings[1].location.line is missing"),
        (("findings", 1, "location"), "x", "findings[1].location is 'x', not a mapping or null"),
        (("findings", 0, "backends"), [1], "findings[0].backends[0] is 1, not text"),
    ],
)
def test_a_wrong_field_is_named(run_folder: Path, place: tuple[Any, ...], value: Any, said: str):
    report = copy.deepcopy(sample.usual())
    item: Any = report
    for step in place[:-1]:
        item = item[step]
    item[place[-1]] = value
    with pytest.raises(UsageError) as caught:
        read_report(store(run_folder, report))
    assert said in str(caught.value)


def places(item: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    parts = item.items() if isinstance(item, dict) else enumerate(item)
    found = []
    for key, part in parts:
        found.append((*at, key))
        if isinstance(part, (dict, list)):
            found += places(part, (*at, key))
    return found


def test_a_report_damaged_anywhere_is_refused_or_still_makes_every_document(run_folder: Path):
    """One field at a time, each with things it is not: never anything but one clear error."""
    from diffuzz.report.documents import write_all
    from diffuzz.report.issue import issue

    draw = random.Random(1)
    whole = places(sample.usual())
    refused = 0
    for place in draw.sample(whole, 150):
        report = copy.deepcopy(sample.usual())
        item: Any = report
        for step in place[:-1]:
            item = item[step]
        wrong = draw.choice([None, "x", -1, 1.5, True, [], {}, [None], {"x": None}, 10**30])
        item[place[-1]] = wrong
        try:
            read = read_report(store(run_folder, report))
        except UsageError:
            refused += 1
            continue
        names = {name: str(run_folder / name) for name in ("junit", "sarif", "html", "markdown")}
        write_all(read, **names)
        for finding in read["findings"]:
            issue(read, finding)
    assert refused > 50
