"""Variants of a kernel over history: what merges, what splits, and what is looked at to know."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from diffuzz.history import Cutter, code_begins, history
from diffuzz.slicing import Missing
from diffuzz.sources.repository import Repository

from .. import toy
from .conftest import ARCH, TARGET, Past, body

USING = toy.kernel("right").replace(
    "def widen(values):\n    return values.to(torch.float32)\n", "from vllm.toy.wide import widen\n"
)
WIDE = "import torch\n\n\ndef widen(values):\n    return values.to({type})\n"


def test_commits_that_change_nothing_of_the_kernel_make_no_variant(past: Past) -> None:
    first = past.version("right")
    past.noise(5)
    past.commit("reformat", {"vllm/toy/scale.py": toy.kernel("right") + "\n\n# a comment\n"})
    culprit = past.version("narrow")
    past.noise(3)
    found = past.variants(first)
    assert [(v.revision, v.spans) for v in found.variants] == [(first, 7), (culprit, 4)]
    assert found.revisions == 11
    assert found.versions <= 5  # both ends and the commits that touch the file, not the noise
    assert found.variants[1].commit is not None
    assert found.variants[1].commit.subject == "narrow"


def test_a_moved_file_is_the_same_variant(past: Past) -> None:
    first = past.version("right")
    moved = {"vllm/toy/scale.py": None, "vllm/old_toy.py": toy.kernel("right")}
    past.commit("move", moved)
    culprit = past.commit("narrow", {"vllm/old_toy.py": toy.kernel("narrow")})
    back = {"vllm/old_toy.py": None, "vllm/toy/scale.py": toy.kernel("narrow")}
    past.commit("move back", back)
    found = past.variants(first)
    assert [(v.revision, v.spans) for v in found.variants] == [(first, 2), (culprit, 2)]


def test_what_the_kernel_depends_on_later_counts_from_then_on(past: Past) -> None:
    first = past.version("right")
    past.commit("wide, unused yet", {"vllm/toy/wide.py": WIDE.format(type="torch.float32")})
    past.commit("still unused", {"vllm/toy/wide.py": WIDE.format(type="torch.float64")})
    used = past.commit("use it", {"vllm/toy/scale.py": USING})
    past.noise()
    changed = past.commit("change it", {"vllm/toy/wide.py": WIDE.format(type="torch.bfloat16")})
    found = past.variants(first)
    assert [v.revision for v in found.variants] == [first, used, changed]


def test_a_file_that_is_missing_and_then_comes_is_looked_for(past: Past) -> None:
    first = past.version("right")
    broken = past.commit("use what is not there", {"vllm/toy/scale.py": USING})
    past.noise()
    mended = past.commit("add it", {"vllm/toy/wide.py": WIDE.format(type="torch.float32")})
    found = past.variants(first)
    assert [v.revision for v in found.variants] == [first, broken, mended]
    assert found.variants[1].hash is None
    assert "wide" in str(found.variants[1].reason)
    assert not found.variants[1].absent


def test_any_native_file_may_bring_an_op_that_is_missing(past: Past) -> None:
    text = body("    torch.ops._C.toy_op(values)\n")
    first = past.commit("an op", {**toy.tree("right"), "vllm/toy/scale.py": text})
    past.noise(2)
    other = past.commit("native", {"csrc/a.cu": "int x;\n"})
    found = past.variants(first)
    assert [v.reason for v in found.variants] == ["missing op toy_op"]
    assert found.versions == 3  # both ends and the one that touches native code
    assert found.variants[0].until == other


def test_a_revert_has_the_hash_of_what_it_goes_back_to(past: Past) -> None:
    first = past.version("right")
    past.version("narrow")
    past.version("right")
    found = past.variants(first)
    assert [v.spans for v in found.variants] == [1, 1, 1]
    assert found.variants[0].hash == found.variants[2].hash != found.variants[1].hash
    assert found.distinct == 2


def test_a_merge_brings_its_branch_and_the_full_graph_knows_who_made_it(past: Past) -> None:
    first = past.version("right")
    past.branch("topic")
    past.noise()
    made = past.version("narrow")
    past.back()
    past.noise(2)
    merged = past.merge("topic")
    last = past.noise()
    line = past.variants(first)
    assert [v.revision for v in line.variants] == [first, merged]
    graph = past.variants(first, last, all_parents=True)
    assert [v.revision for v in graph.variants] == [first, made]
    assert graph.variants[1].parents == (0,)


def test_before_the_code_there_is_none_and_the_beginning_is_found(past: Past) -> None:
    past.commit("empty", {"vllm/__init__.py": ""})
    past.noise(3)
    begin = past.version("right")
    past.noise()
    with Repository.open(str(past.folder)) as repository:
        assert code_begins(repository, "main", TARGET).sha == begin
        root = repository.root("main").sha
    found = past.variants(root)
    assert found.variants[0].absent
    assert [v.spans for v in found.variants] == [4, 2]


def test_code_in_the_very_first_commit_begins_there(past: Past) -> None:
    first = past.version("right")
    with Repository.open(str(past.folder)) as repository:
        assert code_begins(repository, "main", TARGET).sha == first


def test_a_base_on_another_branch_starts_where_the_two_part(past: Past) -> None:
    first = past.version("right")
    past.branch("release")
    released = past.noise()
    past.back()
    culprit = past.version("narrow")
    found = past.variants(released)
    assert [v.revision for v in found.variants] == [first, culprit]
    assert len(found.notes) == 1
    assert first[:10] in found.notes[0]


def test_a_partial_clone_gives_the_same(past: Past, tmp_path: Path) -> None:
    first = past.version("right")
    for version in ("narrow", "right", "asserts"):
        past.noise(2)
        past.version(version)
    toy.git(past.folder, "config", "uploadpack.allowFilter", "true")
    toy.git(past.folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    partial = tmp_path / "partial.git"
    url = f"file://{past.folder}"
    toy.git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", url, str(partial))
    with Repository.open(str(partial)) as repository:
        found = history(repository, first, "main", TARGET, ARCH)
    assert [v.key for v in found.variants] == [v.key for v in past.variants(first).variants]


@pytest.mark.parametrize("seed", range(3))
def test_the_walk_finds_what_slicing_every_commit_finds(past: Past, seed: int) -> None:
    rng = random.Random(seed)
    commits = [past.version("right")]
    versions = ("right", "narrow", "asserts", "right, written otherwise", "misses a name")
    for number in range(25):
        place = rng.choice(("vllm/toy/scale.py", "vllm/old_toy.py"))
        files: dict[str, str | None] = {
            "vllm/noise.py": f"x = {number}\n",
            "vllm/toy/wide.py": WIDE.format(type=rng.choice(("torch.float32", "torch.float64"))),
        }
        if rng.random() < 0.5:
            files[place] = rng.choice([*map(toy.kernel, versions), USING, body("    pass\n")])
            other = {"vllm/toy/scale.py", "vllm/old_toy.py"} - {place}
            for path in other:
                if (past.folder / path).exists() and rng.random() < 0.7:
                    files[path] = None
        commits.append(past.commit(f"step {number}", files))
    with Repository.open(str(past.folder)) as repository:
        keys = [Cutter(TARGET, ARCH).at(repository.source(sha)).key for sha in commits]
    starts = [i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]]
    found = past.variants(commits[0])
    assert [(v.revision, v.key) for v in found.variants] == [(commits[i], keys[i]) for i in starts]
    assert sum(v.spans for v in found.variants) == len(commits)
    assert all(one.key != other.key for one, other in pairwise(found.variants))
    again = past.variants(commits[0])
    assert again.sliced == 0  # remembered by the files it depends on
    assert [v.key for v in again.variants] == [v.key for v in found.variants]
    for variant in again.variants:
        if variant.hash is not None:
            assert not isinstance(variant.cut, Missing)
            assert variant.cut.slice.hash == variant.hash
