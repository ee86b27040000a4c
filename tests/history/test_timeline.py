"""``diffuzz timeline``: every change of verdict, as text, JSON and picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from diffuzz.report.timeline_picture import page, svg

from .. import toy
from ..conftest import Command
from .conftest import Past, WriteFinding

SUBJECT = 'narrow <script>alert(1)</script> & "more" (#5)'


@pytest.fixture
def told(past: Past) -> list[str]:
    """Right, narrow under a nasty subject, untellable, right again; noise between."""
    commits = [past.version("right")]
    past.noise(2)
    commits.append(past.commit(SUBJECT, toy.tree("narrow")))
    past.noise()
    commits.append(past.version("misses a name"))
    commits.append(past.version("right"))
    return commits


def run(diffuzz: Command, past: Past, *words: str, code: int = 0) -> tuple[dict[str, Any], str]:
    done = diffuzz(
        *("timeline", "toy_scale", "--targets", toy.TARGETS, "--repo", str(past.folder)),
        *("--json", "out.json", "--html", "out.html", *words),
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(Path("out.json").read_text()), done.stdout


def test_every_change_is_told_with_its_commit(
    diffuzz: Command, past: Past, told: list[str], finding: WriteFinding
) -> None:
    data, text = run(diffuzz, past, "--case", finding())
    assert [t["commit"] for t in data["transitions"]] == told[1:]
    words = [(t["was"]["verdict"], t["now"]["verdict"]) for t in data["transitions"]]
    assert words == [("right", "wrong"), ("wrong", "unknown"), ("unknown", "right")]
    first = data["transitions"][0]
    assert (first["pr"], first["subject"]) == (5, SUBJECT)
    assert first["was"]["measure"]["max_ulp"] < 1 < first["now"]["measure"]["max_ulp"]
    assert first["now"]["what"] == ["precision:through-e4m3"]
    assert (data["revisions"], len(data["variants"]), data["distinct_slices"]) == (7, 4, 2)
    assert data["runs"]["run"] == 2  # the slice that came back is not run again
    for commit in told:
        assert commit[:10] in text
    assert "no_such_function" in text

    again, _ = run(diffuzz, past, "--case", finding())
    assert again["runs"] == {"run": 0, "remembered": 2}
    assert again["transitions"] == data["transitions"]


def test_the_picture_is_well_formed_and_foreign_text_is_inert(
    diffuzz: Command, past: Past, told: list[str], finding: WriteFinding
) -> None:
    data, _ = run(diffuzz, past, "--case", finding())
    html = Path("out.html").read_text()
    assert html == page(data)
    assert "<script" not in html
    assert not re.search(r"(src|href)=", html)
    root = ElementTree.fromstring(svg(data))
    rects = [r for r in root.iter("rect") if r.get("fill") != "none"]
    assert len(rects) == 4
    heights = [float(str(r.get("height"))) for r in rects]
    assert heights[1] > heights[0]
    titles = [t.text or "" for t in root.iter("title")]
    assert any(SUBJECT in title for title in titles)


def test_a_failure_that_stays_while_the_code_changes_is_no_change(
    diffuzz: Command, past: Past, finding: WriteFinding
) -> None:
    past.version("asserts")
    changed = toy.kernel("asserts") + "    out.add_(0)\n"
    past.commit("still asserts", {"vllm/toy/scale.py": changed})
    fix = past.version("right")
    data, _ = run(diffuzz, past, "--case", finding())
    assert len(data["variants"]) == 3
    assert [t["commit"] for t in data["transitions"]] == [fix]


def test_drawn_cases_serve_where_there_is_no_corpus(diffuzz: Command, past: Past) -> None:
    past.version("right")
    past.version("forgets the scale")
    data, text = run(diffuzz, past)
    assert len(data["cases"]) == 6
    assert {t["now"]["verdict"] for t in data["transitions"]} == {"wrong"}
    assert "scale-missing" in text


def test_the_full_graph_compares_with_the_parents(
    diffuzz: Command, past: Past, finding: WriteFinding
) -> None:
    first = past.version("right")
    past.branch("topic")
    made = past.version("narrow")
    past.back()
    past.noise()
    past.merge("topic")
    data, _ = run(diffuzz, past, "--case", finding(), "--from", first, "--all-parents")
    assert [t["commit"] for t in data["transitions"]] == [made]


def test_what_nothing_can_be_told_of_is_no_success(
    diffuzz: Command, past: Past, finding: WriteFinding
) -> None:
    past.version("misses a name")
    data, _ = run(diffuzz, past, "--case", finding(), code=3)
    assert data["transitions"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "nosuchrev"), "nosuchrev"),
        (("--from", "main", "--to", "main~1"), "newer than"),
        (("--html", "no/such/dir.html"), "no/such"),
        (("--case", "nofile.yaml"), "nofile.yaml"),
    ],
)
def test_bad_input_is_one_clear_line(
    diffuzz: Command, past: Past, words: tuple[str, ...], said: str
) -> None:
    past.version("right")
    past.noise()
    repo = ("--targets", toy.TARGETS, "--repo", str(past.folder))
    done = diffuzz("timeline", "toy_scale", *repo, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
