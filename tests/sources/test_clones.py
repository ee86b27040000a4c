"""Repositories given by URL: cloned once into the cache, and fetched into when need be."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from diffuzz.errors import RevisionError, SourceUnavailable
from diffuzz.sources.clones import is_url, without_password
from diffuzz.sources.repository import Repository
from diffuzz.sources.tree import Progress

from .conftest import Clone

GATHER = "vllm/ops/gather.py"


def cached() -> list[Path]:
    folder = Path(os.environ["DIFFUZZ_CACHE"]) / "repositories"
    return sorted(path for path in folder.iterdir() if path.suffix != ".lock")


def test_a_url_is_cloned_once_without_contents(upstream: Clone) -> None:
    url = upstream.path.as_uri()
    told: list[str] = []
    with Repository.open(url, progress=lambda what, *_: told.append(what)) as repository:
        assert repository.worktree is None
        assert repository.source("v1.0.0").read(GATHER) == "scale = 2\n"
        assert repository.history("main~2", "main", [GATHER])
    (clone,) = cached()
    listed = subprocess.run(
        ["git", "rev-list", "--objects", "--all", "--missing=print"],
        cwd=clone,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\n?" in listed.stdout
    inode = clone.stat().st_ino
    Repository.open(url).close()
    assert [path.stat().st_ino for path in cached()] == [inode]


def test_an_unknown_revision_is_fetched(upstream: Clone) -> None:
    Repository.open(upstream.path.as_uri()).close()
    new = upstream.commit("Later (#9)", {GATHER: "scale = 9\n"})
    upstream.git("tag", "v2.0.0")
    with Repository.open(upstream.path.as_uri()) as repository:
        assert repository.source(new[:12]).read(GATHER) == "scale = 9\n"
    with Repository.open(upstream.path.as_uri()) as repository:
        assert repository.resolve("v2.0.0") == new
        with pytest.raises(RevisionError, match="did you mean v2"):
            repository.resolve("v2.0.1")


def test_a_branch_is_where_it_is_now(upstream: Clone) -> None:
    Repository.open(upstream.path.as_uri()).close()
    upstream.git("commit", "-q", "--amend", "-m", "Rewritten")
    with Repository.open(upstream.path.as_uri()) as repository:
        assert repository.resolve("main") == upstream.git("rev-parse", "main")
        assert repository.resolve("HEAD~1") == upstream.git("rev-parse", "HEAD~1")


def test_a_commit_that_no_branch_holds(upstream: Clone) -> None:
    upstream.git("checkout", "-q", "--detach")
    loose = upstream.commit("A pull request's", {GATHER: "scale = 5\n"})
    upstream.git("update-ref", "refs/pull/5/head", loose)
    upstream.git("checkout", "-q", "main")
    with Repository.open(upstream.path.as_uri()) as repository:
        assert repository.source(loose).read(GATHER) == "scale = 5\n"


def test_without_the_remote_what_is_there_is_used_and_said_to_be_old(
    upstream: Clone, caplog: pytest.LogCaptureFixture
) -> None:
    url, main = upstream.path.as_uri(), upstream.git("rev-parse", "main")
    Repository.open(url).close()
    shutil.move(upstream.path, upstream.path.with_name("away"))
    with caplog.at_level(logging.WARNING, "diffuzz"), Repository.open(url) as repository:
        assert repository.resolve("v1.0.0") == repository.resolve("main~1")
        assert repository.resolve("main") == main
        with pytest.raises(SourceUnavailable, match="cannot fetch from"):
            repository.resolve("v9")
    (said,) = caplog.messages
    assert "taking main~1 as of 2023-11-15" in said or "taking main as of" in said


def test_an_unknown_revision_without_the_remote(upstream: Clone) -> None:
    url = upstream.path.as_uri()
    Repository.open(url).close()
    shutil.move(upstream.path, upstream.path.with_name("away"))
    with (
        Repository.open(url) as repository,
        pytest.raises(SourceUnavailable, match="cannot fetch from") as caught,
    ):
        repository.resolve("v9")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("progress", [None, lambda *_: None])
def test_a_url_that_leads_nowhere(tmp_path: Path, progress: Progress | None) -> None:
    with pytest.raises(SourceUnavailable, match=r"cannot clone .*: .*not .* a git repo") as caught:
        Repository.open((tmp_path / "absent").as_uri(), progress=progress)
    assert "\n" not in str(caught.value)
    assert cached() == []


def test_a_url_that_runs_a_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="can run commands") as caught:
        Repository.open(f"ext::sh -c touch% {tmp_path}/ran %S://")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_what_a_killed_clone_left_is_removed(upstream: Clone) -> None:
    url = upstream.path.as_uri()
    Repository.open(url).close()
    (clone,) = cached()
    left_over = clone.with_name(f"{clone.name}.123-abc.part")
    clone.rename(left_over)
    Repository.open(url).close()
    assert cached() == [clone]


def test_a_lock_a_killed_fetch_left_does_not_stop_the_next(upstream: Clone) -> None:
    url = upstream.path.as_uri()
    Repository.open(url).close()
    (clone,) = cached()
    new = upstream.commit("Later", {})
    (clone / "refs/heads").mkdir(parents=True, exist_ok=True)
    (clone / "refs/heads/main.lock").touch()
    (clone / "packed-refs.lock").touch()
    with Repository.open(url) as repository:
        assert repository.resolve("main") == new


def test_two_processes_clone_at_once(
    upstream: Clone, other_process: Callable[..., subprocess.Popen[str]]
) -> None:
    script = (
        "import sys; from diffuzz.sources.repository import Repository\n"
        "print(Repository.open(sys.argv[1]).source('v1.0.0').read('vllm/ops/gather.py'))"
    )
    both = [other_process(script, upstream.path.as_uri()) for _ in range(2)]
    for process in both:
        out, err = process.communicate()
        assert (out.strip(), err) == ("scale = 2", "")
    assert len(cached()) == 1


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.org/vllm.git", True),
        ("git@example.org:vllm/vllm.git", True),
        ("file:///srv/vllm", True),
        ("../vllm", False),
        ("/srv/vllm.git", False),
        ("vllm", False),
    ],
)
def test_what_counts_as_a_url(text: str, url: bool) -> None:
    assert is_url(text) is url


def test_passwords_are_not_shown() -> None:
    shown = without_password("https://me:secret@example.org:8443/vllm.git")
    assert shown == "https://example.org:8443/vllm.git"
    assert without_password("git@example.org:a/b") == "git@example.org:a/b"
