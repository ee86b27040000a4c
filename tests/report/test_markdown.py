"""Markdown as a parser of CommonMark with GitHub's tables and links reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from diffuzz.errors import UsageError
from diffuzz.report.escaping import code, fence, prose, table
from diffuzz.report.files import read_case_file
from diffuzz.report.issue import find, issue
from diffuzz.report.markdown import headline, markdown
from tests.report import sample

PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")
# What GitHub makes links of without any markup, and what it looks for in text after parsing.
AUTOLINK = re.compile(r"https?://|www\.|[\w.+-]+@[\w-]+\.\w")
MENTION = re.compile(r"(?<![\w])@[\w]|(?<![&\w])#\d|\w/\w+#\d")


def tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or []


def html_of(text: str) -> list[str]:
    return [token.content for token in tokens(text) if token.type in ("html_inline", "html_block")]


def loose_text(text: str) -> str:
    """Text outside of code, where GitHub looks for mentions; what stands in <code> left out."""
    shown, inside = [], False
    for token in tokens(text):
        if token.type == "html_inline" and "code>" in token.content:
            inside = token.content == "<code>"
        elif token.type == "text" and not inside:
            shown.append(token.content)
    return "\n".join(shown)


def assert_inert(text: str) -> None:
    """Nothing but the report's own structure: no links, images or markup, nobody mentioned."""
    text = re.sub(r"\*\*([\d,]+)\*\* \|", r"\1 |", text)  # counts that are to be seen
    kinds = {token.type for token in tokens(text)}
    assert not kinds & {"link_open", "image", "strong_open", "em_open", "blockquote_open"}
    allowed = {"<code>", "</code>"}
    extra = {item.strip() for item in html_of(text)} - allowed
    assert all(item.startswith("<!-- A draft made by diffuzz") for item in extra)
    assert not MENTION.search(loose_text(text))
    outside = re.sub(r"(`{3,})\w*\n.*?\n\1(?=\n|$)", "", text, flags=re.DOTALL)
    outside = re.sub(r"`[^`\n]+`", "", outside)
    assert not AUTOLINK.search(outside)


PIECES = [
    "plain_name", "a`b", "a|b", "a\\|b", "``", "`", "<b>", "&amp;", "@you", "#12", "\\", "a\nb",
    "- x", "1. x", "# x", "[a](b)", "![a](b)", "*a*", "_a_", "__a__", "a_b", "~~a~~", "$a$",
    ":tada:", "https://e.example", "WWW.e.example", "a@e.example", "o/r#1", "<!-- x", "-->",
    sample.HOSTILE,
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_of_text_reads_as_itself_wherever_it_stands(piece: str):
    text = table(["a", "b"], [[code(piece), prose(piece)]]) + f"\n\n- one: {code(piece)}\n"
    text += f"\n# Title {prose(piece)}\n\n{fence(piece)}\n"
    assert_inert(text)
    kinds = [token.type for token in tokens(text)]
    assert kinds.count("td_open") == 2
    assert kinds.count("fence") == 1
    assert kinds.count("heading_open") == 1
    assert kinds.count("bullet_list_open") == 1
    assert kinds[-1] == "fence"


@pytest.mark.parametrize("piece", ["a`b", "a|b", "a\\|b", "<b> &amp;", "@you #1", "x"])
def test_code_shows_the_very_text(piece: str):
    inline = [token for token in tokens(code(piece)) if token.type in ("text", "code_inline")]
    assert "".join(token.content for token in inline) == piece


def test_a_summary_tells_verdicts_findings_and_what_could_not_be_told():
    text = markdown(sample.usual())
    assert text.startswith("## diffuzz: 2 regressions, 1 in both, 1 fixed\n")
    assert "| `gather` | `gfx942` | `cpu` | differ | 40 | 28 | 10 | **2** |" in text
    assert "| `decode` | `sm100` | `cpu` | differ | 0 | 0 | 0 | **1** |" in text
    assert text.index("number 2") < text.index("number 4") < text.index("number 1")
    assert "- at: `vllm/ops/gather.py:150 in gather_cache`" in text
    assert "| `decode` | `sm100` | not tested | `new parameter rope_scale` |" in text
    assert_inert(text)


def test_headlines():
    def said(*findings: dict[str, Any], **changes: Any) -> str:
        return headline(sample.report(sample.target(findings=list(findings), **changes)))

    assert said() == "nothing to report"
    assert said(verdicts={"agree": 0, "differ": 0, "unknown": 4}) == "nothing could be tested"
    assert said(sample.finding(1, "fixed")) == "no regression, 1 fixed"
    assert said(sample.finding(1)) == "1 regression"
    known = sample.finding(2, known={"red": False, "text": "known"})
    follows = sample.finding(3, follows="gather-wrong-result-00000001")
    assert said(sample.finding(1), known, follows) == "1 regression, 1 known, 1 that follows"
    assert said(known) == "no regression, 1 known"


def test_what_stood_in_for_the_real_thing_is_said():
    assert "- `decode` on `sm90`: cat_op is a model, not built" in markdown(sample.usual())
    report = sample.usual()
    text = issue(report, find(report, "gather-wrong-result-00000004"))
    assert "| note | cat_op is a model, not built |" in text


def test_a_summary_of_many_findings_stays_within_what_github_takes():
    findings = [sample.finding(k, message="x" * 100_000) for k in range(300)]
    text = markdown(sample.report(sample.target(findings=findings)))
    assert len(text.encode()) < 1 << 20
    assert "… and 250 more findings" in text


@pytest.mark.parametrize("make", [markdown, lambda r: issue(r, r["findings"][0])])
def test_hostile_text_is_inert(make: Any):
    text = make(sample.hostile())
    assert_inert(text)
    assert "window.pwned" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\ud800]", text)


def test_a_draft_holds_what_the_receiver_needs(tmp_path: Path):
    report = sample.usual()
    finding = find(report, "gather-wrong-result-00000002")
    text = issue(report, finding)
    assert text.startswith("# gather on gfx942: value equals the truth shifted by a page\n")
    for said in (
        "`gather` is right at the baseline and wrong at the candidate",
        "seen in 3 of 40 cases on `gfx942`",
        "- source: `vllm/ops/gather.py:150 in gather_cache`",
        "- backends reached: `OneImpl`, `OtherImpl (conditional)`",
        "- culprit: `cccccccccccc (2026-05-06) Tidy the gather`",
        f"| baseline | `v1` | `{'1' * 40}` | `2026-01-02` |",
        "| largest error (ulp) | 0.5 | inf |",
        "| first wrong index | – | `[0, 3, 1]` |",
        "diffuzz replay gather-wrong-result-00000002.yaml --revision v2",
        "| torch | `2.13.0` |",
    ):
        assert said in text
    assert "findings/" not in text, "a path of the sender's machine"
    block = next(token for token in tokens(text) if token.info == "yaml")
    (tmp_path / "case.yaml").write_text(block.content)
    case = read_case_file(tmp_path / "case.yaml")
    assert (case.target, case.arch, case.seed) == ("gather", "gfx942", 7)
    assert case.values == finding["case"]["values"]


def test_a_draft_names_the_wrong_revision_by_its_commit():
    report = sample.usual()
    text = issue(report, find(report, "gather-precision-00000001"))
    assert "is wrong at the baseline and right at the candidate" in text
    assert f"--revision {'1' * 40} --repo VLLM_CLONE" in text


def test_a_draft_shows_the_error_map_that_tells_most():
    maps = [
        {"rows": "dim 0: 2", "cols": "dim 1: 3", "cells": ["000", "000"]},
        {"rows": "dim 1: 3", "cols": "dim 2: 2", "cells": ["00", "99", "0."]},
    ]
    kept = {"unit": "ulp", "shape": [2, 3, 2], "histogram": [], "maps": maps}
    item = sample.finding(1, errors={"baseline": None, "candidate": kept})
    assert "\n00\n99\n0.\n" in issue(sample.report(sample.target(findings=[item])), item)


def test_an_unknown_finding_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"no finding 'x' in this run; it has gather-precision"):
        find(sample.usual(), "x")
