"""Naming commits and walking history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diffuzz.errors import RevisionError, SourceUnavailable
from diffuzz.sources.repository import Repository

from .conftest import Clone, run_git

GATHER = "vllm/ops/gather.py"


@pytest.fixture
def repository(upstream: Clone) -> Iterator[Repository]:
    with Repository.open(str(upstream.path)) as opened:
        yield opened


def subjects(repository: Repository, *arguments: object, **options: object) -> list[str]:
    return [commit.subject for commit in repository.history(*arguments, **options)]  # type: ignore[arg-type]


# Opening


def test_a_folder_inside_a_clone_stands_for_the_clone(upstream: Clone) -> None:
    with Repository.open(str(upstream.path / "vllm/ops")) as repository:
        assert repository.worktree == upstream.path.resolve()
        assert repository.resolve("main") == upstream.git("rev-parse", "main")


def test_a_bare_repository_without_configuration(upstream: Clone, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", "--bare", upstream.path.as_uri(), "bare")
    (tmp_path / "bare/config").unlink()
    with Repository.open(str(tmp_path / "bare")) as repository:
        assert repository.worktree is None
        assert repository.source("main").exists(GATHER)


def test_what_is_no_repository(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="not a git repository"):
        Repository.open(str(tmp_path))
    with pytest.raises(SourceUnavailable, match="no such folder"):
        Repository.open(str(tmp_path / "absent"))


def test_without_git_one_is_told(upstream: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceUnavailable, match="git is not installed"):
        Repository.open(str(upstream.path))


def test_a_repository_git_distrusts(upstream: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(SourceUnavailable, match="dubious ownership"):
        Repository.open(str(upstream.path))


def test_the_repository_of_a_hook_is_not_mistaken_for_ours(
    upstream: Clone, new_clone: Callable[[str], Clone], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_clone("other")
    main = upstream.git("rev-parse", "main")
    other.commit("Unrelated", {"a": "a"})
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    with Repository.open(str(upstream.path)) as repository:
        assert repository.resolve("main") == main
        assert repository.source("main").read(GATHER) == "scale = 2\n"


# Naming


def test_the_ways_to_name_a_commit(repository: Repository, upstream: Clone) -> None:
    upstream.stamp()
    upstream.git("tag", "-a", "-m", "annotated", "v1.0.1", "v1.0.0")
    second = upstream.git("rev-parse", "main~1")
    for name in ("v1.0.0", "v1.0.1", "main~1", "HEAD^", second, second[:10], "refs/tags/v1.0.0"):
        assert repository.resolve(name) == second, name


def test_an_unknown_name_brings_close_ones(repository: Repository) -> None:
    with pytest.raises(RevisionError, match=r"no revision 'v1\.0\.1'.*did you mean v1\.0\.0$"):
        repository.resolve("v1.0.1")
    with pytest.raises(RevisionError, match="no revision 'unlike'") as caught:
        repository.resolve("unlike")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "--all", "-n", "main\n", "a..b", f"main:{GATHER}", "main^{tree}"]
)
def test_what_names_no_commit(repository: Repository, text: str) -> None:
    with pytest.raises(RevisionError) as caught:
        repository.resolve(text)
    assert "\n" not in str(caught.value)
    assert not repository.has(text)


def test_an_ambiguous_id_is_said_to_be_one(repository: Repository, upstream: Clone) -> None:
    seen: dict[str, str] = {}
    for number in range(2000):  # chance alone makes two share four digits long before
        made = upstream.git("commit-tree", "-m", str(number), "HEAD^{tree}")
        if made[:4] in seen and seen[made[:4]] != made:
            with pytest.raises(RevisionError, match="ambiguous"):
                repository.resolve(made[:4])
            return
        seen[made[:4]] = made
    pytest.fail("no two ids share four digits")


def test_a_shallow_clone_explains_what_it_lacks(upstream: Clone, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", "--depth=1", upstream.path.as_uri(), "shallow")
    with Repository.open(str(tmp_path / "shallow")) as repository:
        assert repository.shallow
        with pytest.raises(RevisionError, match="--unshallow"):
            repository.resolve(upstream.git("rev-parse", "main~2"))


# Commits


@pytest.mark.parametrize(
    ("subject", "pr"),
    [
        ("Fix the gather (#39122)", 39122),
        ('Revert "Fix the gather (#1)" (#2)', 2),
        ("Trailing space (#3) ", 3),
        ("No number", None),
        ("See (#4) for why", None),
        ("", None),
    ],
)
def test_the_pull_request_is_read_from_the_subject(
    upstream: Clone, repository: Repository, subject: str, pr: int | None
) -> None:
    upstream.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", subject)
    commit = repository.commit("main")
    assert (commit.subject, commit.pr) == (subject.strip(), pr)


def test_subjects_in_other_encodings(upstream: Clone, repository: Repository) -> None:
    upstream.git("-c", "i18n.commitEncoding=latin-1", "commit", "-q", "--allow-empty", "-m", "né")
    assert repository.commit("main").subject.startswith("n")
    upstream.commit("日本語 (#5)", {})
    assert repository.commit("main").subject == "日本語 (#5)"


# History


def test_history_is_oldest_first_without_its_base(repository: Repository) -> None:
    everything = ["Scale by two (#22)", "Change nothing under test"]
    assert subjects(repository, "main~2", "main") == everything
    assert subjects(repository, "main~2", "main", [GATHER]) == everything[:1]
    assert subjects(repository, "main~2", "main", ["vllm", "csrc"]) == everything[:1]
    assert subjects(repository, "main", "main~2") == []


def test_paths_are_taken_literally(repository: Repository) -> None:
    assert subjects(repository, "main~2", "main", ["vllm/*.py", ":(top)vllm"]) == []


def test_a_renamed_file_is_followed_by_giving_both_paths(
    repository: Repository, upstream: Clone
) -> None:
    upstream.commit("Move", {GATHER: None, "vllm/v1/gather.py": "scale = 2\n"})
    upstream.commit("Change moved", {"vllm/v1/gather.py": "scale = 3\n"})
    found = subjects(repository, "main~4", "main", [GATHER, "vllm/v1/gather.py"])
    assert found == ["Scale by two (#22)", "Move", "Change moved"]


def test_a_merge_counts_once_on_the_first_parents(repository: Repository, upstream: Clone) -> None:
    upstream.git("checkout", "-q", "-b", "side", "main~1")
    upstream.commit("Side one", {GATHER: "scale = 3\n"})
    upstream.commit("Side two", {GATHER: "scale = 4\n"})
    upstream.git("checkout", "-q", "main")
    upstream.merge("side", "Merge side (#7)")
    upstream.commit("After", {"vllm/other.py": "x = 1\n"})
    assert subjects(repository, "v1.0.0", "main", [GATHER]) == ["Merge side (#7)"]
    every = subjects(repository, "v1.0.0", "main", [GATHER], first_parent=False)
    assert every == ["Side one", "Side two", "Merge side (#7)"]


def test_users_configuration_does_not_change_history(
    repository: Repository, upstream: Clone
) -> None:
    for option in ("log.showSignature=true", "log.follow=true", "log.date=relative"):
        upstream.git("config", *option.split("="))
    upstream.git("config", "format.pretty", "oneline")
    assert subjects(repository, "main~2", "main", [GATHER]) == ["Scale by two (#22)"]


def test_history_across_the_end_of_a_shallow_clone(upstream: Clone, tmp_path: Path) -> None:
    old = upstream.git("rev-parse", "main~2")
    run_git(tmp_path, "clone", "-q", "--depth=1", upstream.path.as_uri(), "shallow")
    run_git(tmp_path / "shallow", "fetch", "-q", "--depth=1", "origin", old)
    with Repository.open(str(tmp_path / "shallow")) as repository:
        assert repository.resolve(old) == old
        with pytest.raises(RevisionError, match="--unshallow"):
            repository.history(old, "main", [GATHER])
        with pytest.raises(RevisionError, match=r"no common history.*--unshallow"):
            repository.merge_base(old, "main")


def test_a_broken_history_is_one_line(repository: Repository, upstream: Clone) -> None:
    base, lost = upstream.git("rev-parse", "main~2", "main~1").split()
    (upstream.path / ".git/objects" / lost[:2] / lost[2:]).unlink()
    with pytest.raises(SourceUnavailable) as caught:
        repository.history(base, "main")
    assert "\n" not in str(caught.value)


def test_ancestry(repository: Repository, upstream: Clone) -> None:
    assert repository.is_ancestor("main~2", "main")
    assert repository.is_ancestor("main", "main")
    assert not repository.is_ancestor("main", "main~2")
    upstream.git("checkout", "-q", "-b", "side", "main~1")
    upstream.commit("Side", {})
    assert repository.merge_base("side", "main") == upstream.git("rev-parse", "main~1")
    upstream.git("checkout", "-q", "--orphan", "apart")
    upstream.commit("Apart", {})
    with pytest.raises(RevisionError, match="no common history"):
        repository.merge_base("apart", "main")


def test_the_main_branch_is_the_remotes_first(upstream: Clone, tmp_path: Path) -> None:
    with Repository.open(str(upstream.path)) as repository:
        assert repository.main_branch() == "main"
    run_git(tmp_path, "clone", "-q", str(upstream.path), "fork")
    with Repository.open(str(tmp_path / "fork")) as repository:
        assert repository.main_branch() == "origin/main"
    upstream.git("branch", "-m", "main", "trunk")
    with Repository.open(str(upstream.path)) as repository:
        assert repository.main_branch() is None
