"""``diffuzz bisect`` on planted histories: the culprit, the ends, what cannot be told, blame."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .. import toy
from ..conftest import Command
from .conftest import NARROW, Past, WriteFinding, body

ASSERTS = "assertion:run:scale_rows:this toy wants a quantised query"


class Bisect:
    """Runs the command and reads its JSON."""

    def __init__(self, diffuzz: Command, past: Past, folder: Path) -> None:
        self._diffuzz, self._past, self._folder = diffuzz, past, folder

    def __call__(
        self, finding: str, good: str, bad: str, *more: str, code: int = 0
    ) -> dict[str, Any]:
        done = self._diffuzz(
            *("bisect", finding, "--good", good, "--bad", bad, "--targets", toy.TARGETS),
            *("--repo", str(self._past.folder), "--json", "out.json", *more),
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, done.stdout + done.stderr
        self.stdout, self.stderr = done.stdout, done.stderr
        found: dict[str, Any] = json.loads((self._folder / "out.json").read_text())
        return found


@pytest.fixture
def bisect(diffuzz: Command, past: Past, tmp_path: Path) -> Bisect:
    return Bisect(diffuzz, past, tmp_path)


def test_the_commit_that_brought_it_and_the_one_that_fixed_it(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    good = past.version("right")
    past.noise(3)
    past.version("right, written otherwise")
    culprit = past.commit("Make it narrow (#77)", toy.tree("narrow"))
    bad = past.noise(4)
    found = bisect(finding(), good, bad)
    assert found["culprit"]["commit"] == culprit
    assert (found["culprit"]["pr"], found["direction"]) == (77, "regression")
    assert found["range"] is None
    assert (found["tested"], found["spanned"]) == (3, 9)
    assert found["confidence"] > 0.99
    slices = [e["slice"] for e in found["evidence"]]
    assert len(set(slices)) == len(slices) == 3  # no culprit has its parent's slice
    assert [t["commit"] for t in found["transitions"]] == [culprit]
    assert found["checked"]["good"] == {"good": 2}
    assert found["checked"]["bad"] == {"bad": 2}
    assert found["measure"]["good"]["max_ulp"] < 1 < found["measure"]["bad"]["max_ulp"]
    assert found["blame"]["carriers"][0].startswith("vllm.toy.scale.scale_rows (")
    assert f"{culprit[:10]} 2026-01-01 Make it narrow (#77)" in bisect.stdout

    fix = past.version("right")
    found = bisect(finding(), fix, bad)
    assert found["direction"] == "fixed"
    assert found["culprit"]["commit"] == fix
    assert "the commit that fixed it" in bisect.stdout


def test_ends_that_are_not_as_claimed_are_named(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    right = past.version("right")
    narrow = past.version("narrow")
    later = past.commit("more", {"vllm/toy/scale.py": body("    pass\n")})
    again = past.version("right, written otherwise")
    assert "both ends are good" in str(bisect(finding(), right, again, code=1)["problem"])
    swapped = bisect(finding(), narrow, right, code=2)
    assert "swapped" in str(swapped["problem"])
    other = bisect(finding(), right, later, code=3)
    assert later in str(other["problem"])
    assert "another failure" in str(other["problem"])
    same = bisect(finding(), right, right, code=1)
    assert "same" in str(same["problem"])


def test_what_cannot_be_told_is_skipped_or_makes_a_range(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    first = past.version("right")
    past.version("misses a name")
    good = past.version("right, written otherwise")
    hidden = past.version("misses a name")
    surprise = past.version("needs more")
    other = past.version("writes nothing")
    bad = past.version("narrow")
    found = bisect(finding(), first, bad)
    assert found["culprit"] is None
    assert (found["range"]["good"], found["range"]["bad"]) == (good, bad)
    assert [u["commit"] for u in found["range"]["untested"]] == [hidden, surprise, other]
    reasons = [u["reason"] for u in found["range"]["untested"]]
    assert "no_such_function" in reasons[0]
    assert "new parameter surprise" in reasons[1]
    assert "another failure" in reasons[2]
    assert "cannot tell" in bisect.stdout


def test_a_history_that_goes_to_and_fro_is_told_in_full(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    first = past.version("right")
    once = past.version("narrow")
    back = past.version("right")
    culprit = past.version("narrow")
    found = bisect(finding(), first, culprit)
    assert found["culprit"]["commit"] == culprit
    assert [t["commit"] for t in found["transitions"]] == [once, back, culprit]
    assert found["tested"] == 2  # what was reverted has the slice of before
    assert "changed 3 times" in " ".join(found["notes"])


def test_an_assertion_is_bisected_to_its_flagless_fix(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    bad = past.version("asserts")
    past.noise()
    fix = past.version("right")
    found = bisect(finding(ASSERTS), "main", bad)
    assert found["culprit"]["commit"] == fix
    assert found["direction"] == "fixed"


def test_code_that_does_not_exist_shows_nothing(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    empty = past.commit("empty", {"vllm/__init__.py": ""})
    culprit = past.version("narrow")
    found = bisect(finding(), empty, "main")
    assert found["culprit"]["commit"] == culprit
    assert "does not exist before" in bisect.stdout
    assert found["blame"] is None
    assert found["tested"] == 1


def test_a_merge_is_the_culprit_and_its_branch_is_searched_on_request(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    good = past.version("right")
    past.branch("topic")
    past.noise()
    made = past.version("narrow")
    past.noise()
    past.back()
    past.noise()
    merged = past.merge("topic")
    assert bisect(finding(), good, "main")["culprit"]["commit"] == merged
    found = bisect(finding(), good, "main", "--all-parents")
    assert found["culprit"]["commit"] == made
    assert merged[:10] in " ".join(found["notes"])


def test_an_end_on_a_release_branch(bisect: Bisect, past: Past, finding: WriteFinding) -> None:
    past.version("right")
    past.branch("release")
    released = past.noise()
    past.back()
    culprit = past.version("narrow")
    found = bisect(finding(), released, "main")
    assert found["culprit"]["commit"] == culprit
    assert "where the two part" in " ".join(found["notes"])
    toy.git(past.folder, "checkout", "-q", "release")
    wrong = past.version("narrow")
    found = bisect(finding(), wrong, culprit, code=2)
    assert wrong in found["problem"]


def test_an_unsteady_failure_is_repeated_until_it_is_sure(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    good = past.version("right")
    past.version("right, written otherwise")
    text = (
        "    wide = widen(values) * scale\n"
        "    if os.urandom(1)[0] < 140:\n"
        "        wide = wide.to(values.dtype).to(torch.float32)\n"
        "    out.copy_(wide)\n"
    )
    culprit = past.commit("sometimes", {"vllm/toy/scale.py": body(text)})
    bad = past.commit("still", {"vllm/toy/scale.py": body("    # again\n" + text + "    0\n")})
    found = bisect(finding(), good, bad, "--no-blame")
    assert found["culprit"]["commit"] == culprit
    assert 0.99 < found["confidence"] < 1
    (line,) = [e for e in found["evidence"] if e.get("commit") == culprit]
    assert line["bad"] > 0


def two_definitions(factor: str, call: str) -> str:
    """A kernel with a second definition in its file."""
    return body(f"    out.copy_({call})\n").replace(
        "def scale_rows", f"def scaled(values, scale{factor}\n\n\ndef scale_rows"
    )


PLAIN = two_definitions("):\n    return widen(values) * scale\n", "scaled(values, scale)")
INNER = two_definitions(
    "):\n    wide = widen(values) * scale\n    return wide.to(values.dtype).to(torch.float32)\n",
    "scaled(values, 1 * scale)",
)
TOGETHER = two_definitions(
    ", narrow):\n    wide = widen(values) * scale\n    return wide.to(narrow).to(torch.float32)\n",
    "scaled(values, scale, values.dtype)",
)


def test_blame_names_the_definition_that_carries_the_change(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    good = past.commit("plain", {**toy.tree("right"), "vllm/toy/scale.py": PLAIN})
    past.commit("two changes", {"vllm/toy/scale.py": INNER})
    blame = bisect(finding(), good, "main")["blame"]
    assert len(blame["changed"]) == 2
    (carrier,) = blame["carriers"]
    assert carrier.startswith("vllm.toy.scale.scaled (vllm/toy/scale.py:")


def test_definitions_that_only_work_together_are_not_separated(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    good = past.commit("plain", {**toy.tree("right"), "vllm/toy/scale.py": PLAIN})
    past.commit("a new parameter", {"vllm/toy/scale.py": TOGETHER})
    blame = bisect(finding(), good, "main")["blame"]
    assert blame["text"].startswith("cannot separate")
    assert {c.partition(" ")[0] for c in blame["carriers"]} == {
        "vllm.toy.scale.scaled",
        "vllm.toy.scale.scale_rows",
    }


def test_the_size_of_an_error_is_searched_where_both_ends_fail(
    bisect: Bisect, past: Past, finding: WriteFinding
) -> None:
    little = (
        "    wide = widen(values) * scale\n"
        "    keep = torch.zeros_like(wide)\n    keep[:4] = 1\n"
        "    less = wide.to(values.dtype).to(torch.float32)\n"
        "    out.copy_(torch.where(keep > 0, less, wide))\n"
    )
    good = past.commit("a little", {**toy.tree("right"), "vllm/toy/scale.py": body(little)})
    culprit = past.version("narrow")
    found = bisect(finding(), good, "main")
    assert found["culprit"]["commit"] == culprit
    sizes = found["measure"]
    assert sizes["bad"]["rms_ulp"] > 1.25 * sizes["good"]["rms_ulp"] > 0
    assert "size of the error" in " ".join(found["notes"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--good", "nosuchrev", "--bad", "main"), "nosuchrev"),
        (("--good", ".", "--bad", "main"), "working tree"),
        (("--good", "pypi:9.9", "--bad", "main"), "no tag of this release"),
        (("--good", "main", "--bad", "main", "--arch", "sm1"), "unknown arch"),
        (("--good", "main", "--bad", "main", "--json", "no/such/out.json"), "no/such"),
    ],
)
def test_bad_input_is_one_clear_line(
    diffuzz: Command, past: Past, finding: WriteFinding, words: tuple[str, ...], said: str
) -> None:
    past.version("right")
    repo = ("--targets", toy.TARGETS, "--repo", str(past.folder))
    done = diffuzz("bisect", finding(), *repo, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert NARROW not in done.stderr
