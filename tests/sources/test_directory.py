"""Working trees as sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from diffuzz.errors import RevisionError
from diffuzz.sources.directory import DirectorySource
from diffuzz.sources.repository import Repository

from .conftest import Clone

GATHER = "vllm/ops/gather.py"


def test_uncommitted_edits_are_seen(upstream: Clone) -> None:
    upstream.write(GATHER, "scale = 3\n")
    upstream.write("vllm/new.py", "n = 1\n")
    (upstream.path / "csrc/cache.cu").unlink()
    source = DirectorySource(upstream.path)
    assert source.read(GATHER) == "scale = 3\n"
    assert source.list("") == ["vllm/__init__.py", "vllm/new.py", GATHER]
    assert not source.exists("csrc/cache.cu")
    assert source.identity.commit is None
    head = upstream.git("rev-parse", "HEAD")[:12]
    assert source.identity.note == f"3 uncommitted edits on {head}"


def test_an_unedited_tree_equals_its_commit(upstream: Clone) -> None:
    source = DirectorySource(upstream.path)
    with Repository.open(str(upstream.path)) as repository:
        commit = repository.source("HEAD")
        assert source.list("") == commit.list("")
        for path in [*commit.list(""), "README.md", "vllm", "vllm/absent.py"]:
            assert source.blob_id(path) == commit.blob_id(path)
            assert source.read(path) == commit.read(path)
    assert source.identity.note.startswith("no edits on ")


def test_a_folder_inside_a_clone_stands_for_its_root(upstream: Clone) -> None:
    source = DirectorySource(upstream.path / "vllm/ops", revision=".")
    assert source.root == upstream.path.resolve()
    assert str(source.identity) == "."


def test_a_tree_without_git(tmp_path: Path) -> None:
    (tmp_path / "tree/vllm").mkdir(parents=True)
    (tmp_path / "tree/vllm/__init__.py").write_bytes(b"a\r\n\xff")
    source = DirectorySource(tmp_path / "tree")
    assert source.read("vllm/__init__.py") == "a\r\n\ufffd"
    assert source.identity.note == ""


def test_a_tree_inside_another_clone_is_itself(upstream: Clone) -> None:
    (upstream.path / "extracted/vllm").mkdir(parents=True)
    source = DirectorySource(upstream.path / "extracted")
    assert source.root == (upstream.path / "extracted").resolve()
    assert source.list("") == []
    assert source.identity.note == ""


def test_one_source_sees_one_state(upstream: Clone) -> None:
    source = DirectorySource(upstream.path)
    before = source.blob_id(GATHER)
    upstream.write(GATHER, "scale = 4\n")
    assert source.read(GATHER) == "scale = 2\n"
    assert source.blob_id(GATHER) == before
    assert DirectorySource(upstream.path).read(GATHER) == "scale = 4\n"


def test_links_and_build_products_are_not_files(upstream: Clone) -> None:
    (upstream.path / "vllm/link.py").symlink_to("ops/gather.py")
    (upstream.path / "vllm/folder").symlink_to("ops")
    upstream.write("vllm/__pycache__/x.cpython-311.pyc", "")
    upstream.write("vllm/_C.abi3.so", "")
    source = DirectorySource(upstream.path)
    assert source.list("vllm") == ["vllm/__init__.py", GATHER]
    assert not source.exists("vllm/link.py")
    assert not source.exists("vllm/folder/gather.py")


def test_what_is_no_vllm_tree(tmp_path: Path) -> None:
    with pytest.raises(RevisionError, match="not a vLLM tree"):
        DirectorySource(tmp_path)
    with pytest.raises(RevisionError, match="no such folder"):
        DirectorySource(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(RevisionError, match="no such folder"):
        DirectorySource(tmp_path / "file")


def test_a_clone_git_distrusts_can_still_be_read(
    upstream: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    source = DirectorySource(upstream.path)
    assert source.read(GATHER) == "scale = 2\n"
    assert source.identity.note.startswith("edits unknown: ")
    assert "dubious ownership" in source.identity.note


def test_a_clone_without_a_commit(tmp_path: Path, upstream: Clone) -> None:
    upstream.git("checkout", "-q", "--orphan", "fresh")
    assert DirectorySource(upstream.path).identity.note == "3 uncommitted edits"
