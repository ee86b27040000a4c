"""Commits as sources, from every kind of clone git makes."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
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


@pytest.fixture(params=["normal", "bare", "shallow", "partial", "worktree"])
def any_clone(request: pytest.FixtureRequest, upstream: Clone, tmp_path: Path) -> Path:
    """The upstream, cloned in each way."""
    path = tmp_path / "clone"
    options = {
        "normal": [],
        "bare": ["--bare"],
        "shallow": ["--depth=2"],
        "partial": ["--filter=blob:none", "--no-checkout"],
    }
    if request.param == "worktree":
        upstream.git("worktree", "add", "-q", str(path), "v1.0.0")
    else:
        run_git(tmp_path, "clone", "-q", *options[request.param], upstream.path.as_uri(), "clone")
    return path


def test_every_kind_of_clone_gives_the_same_files(any_clone: Path, upstream: Clone) -> None:
    with Repository.open(str(any_clone)) as repository:
        source = repository.source("v1.0.0")
        assert source.read(GATHER) == "scale = 2\n"
        assert source.read("vllm/__init__.py") == ""
        assert source.blob_id(GATHER) == upstream.git("rev-parse", f"v1.0.0:{GATHER}")
        assert source.list("") == ["csrc/cache.cu", "vllm/__init__.py", GATHER]
        assert source.list("vllm/ops/") == [GATHER]
        assert source.exists("csrc/cache.cu")


def test_identity_has_the_full_commit_and_its_date_in_utc(
    repository: Repository, upstream: Clone
) -> None:
    identity = repository.source("v1.0.0").identity
    assert str(identity) == "v1.0.0"
    assert identity.commit == upstream.git("rev-parse", "v1.0.0")
    assert identity.date == datetime.fromtimestamp(1_700_000_000 + 7200, timezone.utc)
    assert identity.date.utcoffset().total_seconds() == 0


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "README.md", "vllm", "vllm/", "vllm/ops", "vllm/absent.py", "vllm/absent/x.py"),
        *("vllm//__init__.py", "vllm/../README.md", "/vllm/__init__.py", "./vllm/__init__.py"),
        *("vllm/__init__.py/x", "vllm/a\nb", "vllm/__init__.py\n", "vllm\\__init__.py"),
    ],
)
def test_what_is_no_file_of_the_tree_is_absent(repository: Repository, path: str) -> None:
    source = repository.source("main")
    assert source.read(path) is None
    assert source.blob_id(path) is None
    assert not source.exists(path)


def test_links_are_not_files(upstream: Clone, repository: Repository) -> None:
    (upstream.path / "vllm/link.py").symlink_to("ops/gather.py")
    upstream.commit("Link", {})
    source = repository.source("main")
    assert not source.exists("vllm/link.py")
    assert "vllm/link.py" not in source.list("vllm")


def test_names_with_spaces_and_accents(upstream: Clone, repository: Repository) -> None:
    path = "vllm/a földer/ä file.py"
    upstream.commit("Odd names", {path: "é\n"})
    source = repository.source("main")
    assert source.read(path) == "é\n"
    assert path in source.list("vllm")


def test_a_commit_without_vllm_is_refused(
    new_clone: Callable[[str], Clone],
) -> None:
    other = new_clone("other")
    other.commit("Something else", {"src/main.c": "int main;\n"})
    with (
        Repository.open(str(other.path)) as repository,
        pytest.raises(RevisionError, match="not a vLLM tree"),
    ):
        repository.source("main")


# Partial clones and damage


def missing_objects(clone: Path) -> int:
    listed = run_git(clone, "rev-list", "--objects", "--all", "--missing=print")
    return sum(line.startswith("?") for line in listed.splitlines())


@pytest.fixture
def partial(upstream: Clone, tmp_path: Path) -> Path:
    options = ["--bare", "--filter=blob:none"]
    run_git(tmp_path, "clone", "-q", *options, upstream.path.as_uri(), "partial.git")
    return tmp_path / "partial.git"


def test_looking_around_a_partial_clone_fetches_nothing(partial: Path) -> None:
    before = missing_objects(partial)
    with Repository.open(str(partial)) as repository:
        for revision in ("main", "v1.0.0", "main~2"):
            source = repository.source(revision)
            assert source.list("")
            assert source.blob_id(GATHER)
            assert source.exists("csrc/cache.cu")
        repository.history("main~2", "main", [GATHER])
        assert missing_objects(partial) == before > 3
        assert source.read(GATHER) == "scale = 1\n"
        assert missing_objects(partial) == before - 1


def test_what_is_needed_can_be_fetched_at_once(partial: Path) -> None:
    before = missing_objects(partial)
    with Repository.open(str(partial)) as repository:
        commits = repository.history("main~2", "main")
        repository.prefetch([*commits, repository.commit("main~2")], [GATHER, "csrc/absent.cu"])
        assert missing_objects(partial) == before - 2
        repository.prefetch(commits, [GATHER])
        assert repository.source(commits[0]).read(GATHER) == "scale = 2\n"
        assert missing_objects(partial) == before - 2


def test_fetching_at_once_without_the_remote(partial: Path, upstream: Clone) -> None:
    shutil.rmtree(upstream.path)
    with Repository.open(str(partial)) as repository:
        with pytest.raises(SourceUnavailable, match="cannot fetch files") as caught:
            repository.prefetch([repository.commit("main")], [GATHER])
        assert "\n" not in str(caught.value)


def test_a_full_clone_has_nothing_to_fetch(repository: Repository) -> None:
    repository.prefetch(repository.history("main~2", "main"), [GATHER])


def test_a_partial_clone_without_its_remote_says_so_and_goes_on(
    partial: Path, upstream: Clone
) -> None:
    with Repository.open(str(partial)) as repository:
        source = repository.source("v1.0.0")
        assert source.read(GATHER) == "scale = 2\n"
        shutil.rmtree(upstream.path)
        with pytest.raises(SourceUnavailable, match=r"csrc/cache\.cu") as caught:
            source.read("csrc/cache.cu")
        assert "\n" not in str(caught.value)
        assert repository.source("main").read(GATHER) == "scale = 2\n"
        assert repository.source("main~2").blob_id("csrc/cache.cu")


@pytest.mark.parametrize("lost", [GATHER, "vllm/ops", "vllm"])
def test_a_lost_object_is_an_error_not_an_absent_file(upstream: Clone, lost: str) -> None:
    id = upstream.git("rev-parse", f"main:{lost}")
    (upstream.path / ".git/objects" / id[:2] / id[2:]).unlink()
    with (
        Repository.open(str(upstream.path)) as repository,
        pytest.raises(SourceUnavailable, match=r"absent|lacks"),
    ):
        repository.source("main").read(GATHER)


# The one reader process


def test_threads_share_the_reader(upstream: Clone) -> None:
    files = {f"vllm/many/f{i}.py": f"{i}\n" * (i + 1) for i in range(400)}
    upstream.commit("Many files", files)
    with Repository.open(str(upstream.path)) as repository:
        source = repository.source("main")
        start = threading.Barrier(8)

        def read_all(_: int) -> bool:
            start.wait()
            return all(source.read(path) == text for path, text in files.items())

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read_all, range(8)))


def test_a_reader_that_died_is_replaced(repository: Repository) -> None:
    source = repository.source("main")
    assert source.read(GATHER)
    process = repository.objects._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert repository.source("main~2").read(GATHER) == "scale = 1\n"


def test_closing_ends_the_reader(upstream: Clone) -> None:
    with Repository.open(str(upstream.path)) as repository:
        assert repository.source("main").read(GATHER)
        process = repository.objects._process
    assert process is not None
    assert process.poll() is not None


def test_a_collected_repository_ends_its_reader(upstream: Clone) -> None:
    repository = Repository.open(str(upstream.path))
    assert repository.source("main").read(GATHER)
    process = repository.objects._process
    assert process is not None
    del repository
    assert process.poll() is not None


def test_a_forked_child_does_not_take_the_parents_answers(repository: Repository) -> None:
    source = repository.source("main")
    assert source.read(GATHER)
    child = os.fork()
    if child == 0:
        right = repository.source("main~2").read(GATHER) == "scale = 1\n"
        os._exit(0 if right else 1)
    assert repository.source("v1.0.0~1").read("csrc/cache.cu") == "// one\n"
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert repository.source("main~2").read(GATHER) == "scale = 1\n"
