"""What users write for a revision, and what is compared when they write nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from diffuzz.errors import DiffuzzError, RevisionError, SourceUnavailable, UsageError
from diffuzz.sources import Source
from diffuzz.sources.archive import ArchiveSource
from diffuzz.sources.directory import DirectorySource
from diffuzz.sources.git import GitSource
from diffuzz.sources.repository import Repository
from diffuzz.sources.revision import default_revisions, open_revision

from .conftest import Clone, FakeIndex, run_git

GATHER = "vllm/ops/gather.py"


def scale(source: Source) -> str | None:
    return source.read(GATHER)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere"


def test_git_revisions_of_a_repository(upstream: Clone, elsewhere: Path) -> None:
    for text in ("main", "v1.0.0", " main~1 ", upstream.git("rev-parse", "main")):
        source = open_revision(text, str(upstream.path), cwd=elsewhere)
        assert isinstance(source, GitSource)
        assert str(source.identity) == text.strip()
        assert scale(source) == "scale = 2\n"


def test_an_open_repository_is_shared(upstream: Clone) -> None:
    with Repository.open(str(upstream.path)) as repository:
        sources = [open_revision(text, repository) for text in ("main", "main~2")]
        assert [scale(source) for source in sources] == ["scale = 2\n", "scale = 1\n"]
        assert all(isinstance(s, GitSource) and s.repository is repository for s in sources)


def test_working_trees(upstream: Clone, elsewhere: Path) -> None:
    upstream.write(GATHER, "scale = 3\n")
    inside = upstream.path / "vllm"
    for text, repo, cwd in [
        (".", None, upstream.path),
        (".", None, inside),
        (".", str(upstream.path), elsewhere),
        (f"path:{upstream.path}", None, elsewhere),
        ("path:../upstream", None, elsewhere),
        ("path:.", None, upstream.path),
    ]:
        source = open_revision(text, repo, cwd=cwd)
        assert isinstance(source, DirectorySource)
        assert str(source.identity) == text
        assert scale(source) == "scale = 3\n"


def test_the_working_tree_one_stands_in_comes_before_the_repositorys(
    upstream: Clone, new_clone: Callable[[str], Clone]
) -> None:
    other = new_clone("other")
    other.write(GATHER, "scale = 8\n")
    assert scale(open_revision(".", str(upstream.path), cwd=other.path)) == "scale = 8\n"


@pytest.mark.parametrize("text", ["pypi:1.0.0", "1.0.0", "v1.0.0", "pypi:v1.0.0"])
def test_releases(index: FakeIndex, elsewhere: Path, text: str) -> None:
    source = open_revision(text, cwd=elsewhere)
    assert isinstance(source, ArchiveSource)
    assert (str(source.identity), source.identity.version) == (text, "1.0.0")


def test_a_prefix_decides_whatever_the_repository_has(index: FakeIndex, upstream: Clone) -> None:
    upstream.git("tag", "1.0.0")
    assert isinstance(open_revision("pypi:1.0.0", str(upstream.path)), ArchiveSource)
    assert isinstance(open_revision("1.0.0", str(upstream.path)), GitSource)


def test_inside_a_clone_its_revisions_come_first(index: FakeIndex, upstream: Clone) -> None:
    index.add("1.1.0")
    inside = upstream.path / "vllm"
    assert isinstance(open_revision("main", cwd=inside), GitSource)
    assert isinstance(open_revision("v1.0.0", cwd=inside), GitSource)
    assert isinstance(open_revision("1.1.0", cwd=inside), ArchiveSource)
    with pytest.raises(RevisionError, match="did you mean main"):
        open_revision("maim", cwd=inside)


def test_a_url(upstream: Clone, elsewhere: Path) -> None:
    source = open_revision("v1.0.0", upstream.path.as_uri(), cwd=elsewhere)
    assert scale(source) == "scale = 2\n"


@pytest.mark.parametrize(
    ("text", "repo", "error", "message"),
    [
        ("maim", "upstream", RevisionError, "did you mean main"),
        ("0.20.0", "upstream", RevisionError, "for the release write pypi:0.20.0"),
        ("", None, UsageError, "empty revision"),
        ("path:", None, UsageError, "path:DIR"),
        ("path:absent", None, RevisionError, "no such folder"),
        ("path:.", None, RevisionError, "not a vLLM tree"),
        (".", None, RevisionError, "not a vLLM tree"),
        ("pypi:", None, UsageError, "not a version"),
        ("pypi:main", None, UsageError, "not a version"),
        ("pypi:1.0.1", None, RevisionError, "the nearest are 1.0.0"),
        ("1.0.1", None, RevisionError, "the nearest are 1.0.0"),
        ("main", None, RevisionError, "give --repo"),
        ("8a34c50", None, RevisionError, "give --repo"),
        ("../upstream", None, RevisionError, "write path:../upstream"),
        ("main", "elsewhere", SourceUnavailable, "not a git repository"),
        ("main", "absent", SourceUnavailable, "no such folder"),
    ],
)
def test_mistakes_are_one_clear_line(
    index: FakeIndex,
    upstream: Clone,
    elsewhere: Path,
    text: str,
    repo: str | None,
    error: type[DiffuzzError],
    message: str,
) -> None:
    folder = str(elsewhere.parent / repo) if repo else None
    with pytest.raises(error) as caught:
        open_revision(text, folder, cwd=elsewhere)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# Defaults


def test_in_a_clone_the_work_so_far_is_compared(upstream: Clone, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", str(upstream.path), "fork")
    fork = Clone(tmp_path / "fork", hours=9)
    fork.git("checkout", "-q", "-b", "mine", "main~1")
    fork.commit("My work", {GATHER: "scale = 7\n"})
    fork.write(GATHER, "scale = 8\n")
    inside = fork.path / "vllm/ops"
    baseline, candidate = default_revisions(None, inside)
    assert (baseline, candidate) == (upstream.git("rev-parse", "main~1"), ".")
    assert scale(open_revision(baseline, cwd=inside)) == "scale = 2\n"
    assert scale(open_revision(candidate, cwd=inside)) == "scale = 8\n"
    again = default_revisions(str(fork.path), tmp_path)
    assert again == (baseline, f"path:{fork.path.resolve()}")
    assert scale(open_revision(again[1], str(fork.path), cwd=tmp_path)) == "scale = 8\n"


def test_elsewhere_the_two_newest_releases_are_compared(
    index: FakeIndex, elsewhere: Path, new_clone: Callable[[str], Clone]
) -> None:
    for version in ("0.9.0", "1.2.0", "1.10.0", "2.0.0rc1"):
        index.add(version)
    unrelated = new_clone("unrelated")
    unrelated.commit("Not vLLM", {"a": "a"})
    for cwd in (elsewhere, unrelated.path):
        assert default_revisions(None, cwd) == ("pypi:1.2.0", "pypi:1.10.0")


def test_defaults_that_cannot_be_told(
    index: FakeIndex, upstream: Clone, elsewhere: Path, tmp_path: Path
) -> None:
    with pytest.raises(SourceUnavailable, match="no two releases"):
        default_revisions(None, elsewhere)
    with pytest.raises(UsageError, match="no working tree"):
        default_revisions(upstream.path.as_uri(), elsewhere)
    upstream.git("branch", "-m", "main", "trunk")
    with pytest.raises(UsageError, match="no main branch"):
        default_revisions(None, upstream.path)
