"""Releases from a package index, and the cache that keeps them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from packaging.version import Version

from diffuzz.errors import RevisionError, SourceUnavailable, UsageError
from diffuzz.sources.archive import ArchiveSource, Releases
from diffuzz.sources.tree import blob_id

from .conftest import FILES, FakeIndex, make_archive

KEPT = ["csrc/cache.cu", "vllm/__init__.py", "vllm/_version.py", "vllm/ops/gather.py"]
OPEN_IT = (
    "import sys\n"
    "from packaging.version import Version\n"
    "from diffuzz.sources.archive import Releases\n"
    "def told(what, done, total): print(what, done, flush=True)\n"
    "Releases().source(Version('1.0.0'), progress=told)\n"
    "print('opened')"
)


def opened(version: str = "1.0.0") -> ArchiveSource:
    return Releases().source(Version(version))


def in_cache() -> list[Path]:
    folder = Path(os.environ["DIFFUZZ_CACHE"]) / "releases"
    return sorted(path for path in folder.iterdir() if path.suffix != ".lock")


def test_the_text_of_vllm_and_csrc_is_kept(index: FakeIndex) -> None:
    source = opened()
    assert source.list("") == KEPT
    assert source.list("vllm/ops") == ["vllm/ops/gather.py"]
    assert source.list("vllm/op") == source.list("tests") == []
    assert source.read("vllm/ops/gather.py") == "scale = 2\n"
    assert source.read("vllm/__init__.py") == ""
    assert source.blob_id("csrc/cache.cu") == blob_id(b"// one\n")
    for absent in ("setup.py", "vllm/logo.png", "vllm", "vllm/ops/", "../setup.py", ""):
        assert source.read(absent) is source.blob_id(absent) is None
        assert not source.exists(absent)


def test_identity_without_an_upload_time_takes_the_archives_own(index: FakeIndex) -> None:
    identity = opened().identity
    assert (str(identity), identity.version, identity.commit) == ("pypi:1.0.0", "1.0.0", None)
    assert identity.date == datetime.fromtimestamp(1_700_000_000, timezone.utc)
    assert identity.note == "built from abc1234"


def test_a_release_is_downloaded_once_and_then_needs_no_index(
    index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int | None]] = []
    Releases().source(Version("1.0.0"), progress=lambda *said: told.append(said))
    size = len(index.archives["vllm-1.0.0.tar.gz"])
    assert told[-1] == ("vllm-1.0.0.tar.gz", size, size)
    asked = len(index.requests)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    monkeypatch.setenv("PIP_TIMEOUT", "nonsense")
    assert opened().list("") == KEPT
    assert len(index.requests) == asked
    assert len(in_cache()) == 1


# What an index can get wrong


def fails(error: type[Exception], match: str, version: str = "1.0.0") -> None:
    with pytest.raises(error, match=match) as caught:
        opened(version)
    assert "\n" not in str(caught.value)
    assert in_cache() == []


def test_a_wrong_hash(index: FakeIndex) -> None:
    index.add("1.0.0", hash="0" * 64)
    fails(SourceUnavailable, r"vllm-1\.0\.0\.tar\.gz: its sha256 is .* not the 000000000000…")


def test_no_hash(index: FakeIndex) -> None:
    index.add("1.0.0", hash=None)
    fails(SourceUnavailable, "gives no sha256")
    assert index.downloads() == 0


def test_a_weaker_hash_is_no_hash(index: FakeIndex) -> None:
    index.add("1.0.0", hash=None)
    link = index.links["vllm-1.0.0.tar.gz"]
    index.links["vllm-1.0.0.tar.gz"] = link.replace('.gz"', ".gz#md5=" + "0" * 32 + '"')
    fails(SourceUnavailable, "gives no sha256")


def test_an_archive_that_is_gone(index: FakeIndex) -> None:
    index.archives.clear()
    fails(SourceUnavailable, r"cannot download vllm-1\.0\.0\.tar\.gz: answered 404")
    assert index.downloads() == 1


def cut_short(to: BaseHTTPRequestHandler, content: bytes) -> None:
    """Promise all, send half, hang up."""
    to.send_response(200)
    to.send_header("Content-Length", str(len(content)))
    to.end_headers()
    to.wfile.write(content[: len(content) // 2])
    to.close_connection = True


def test_a_connection_that_breaks_is_tried_again(index: FakeIndex) -> None:
    index.send = cut_short
    fails(SourceUnavailable, "the connection broke")
    assert index.downloads() == 3

    def cut_once(to: BaseHTTPRequestHandler, content: bytes) -> None:
        index.send = None
        cut_short(to, content)

    index.send = cut_once
    assert opened().list("") == KEPT


def test_something_that_is_no_archive(index: FakeIndex) -> None:
    index.add("1.0.0", b"this is not gzip")
    fails(SourceUnavailable, "not a readable archive")
    whole = make_archive("1.0.0", {"vllm/big.py": os.urandom(50_000).hex()})
    index.add("1.0.0", whole[: len(whole) // 2])
    fails(SourceUnavailable, "not a readable archive")


def test_an_archive_of_something_else(index: FakeIndex) -> None:
    index.add("1.0.0", make_archive("1.0.0", {"setup.py": ""}))
    fails(RevisionError, "not a vLLM tree")


def test_paths_that_leave_the_archive_are_not_kept(index: FakeIndex) -> None:
    index.add("1.0.0", make_archive("1.0.0", {**FILES, "vllm/../../evil.py": "x"}))
    assert opened().list("") == KEPT


def test_an_unknown_version_brings_the_nearest(index: FakeIndex) -> None:
    for version in ("0.9.0", "1.1.0", "2.0.0"):
        index.add(version)
    fails(RevisionError, r"vLLM 1\.0\.5 .*the nearest are 1\.0\.0 and 1\.1\.0", "1.0.5")
    fails(RevisionError, r"the nearest are 2\.0\.0$", "3.0")


def test_an_index_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(SourceUnavailable, r"package index 127\.0\.0\.1: cannot be reached")
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        Releases().available_versions()


# What can happen to the cache


def test_a_damaged_copy_is_fetched_again(index: FakeIndex) -> None:
    opened()
    (path,) = in_cache()
    good = path.read_bytes()
    for damaged in (good[:-10], b"", good[:100] + b"\xff" + good[101:]):
        path.write_bytes(damaged)
        assert opened().list("") == KEPT
        assert [p.read_bytes() for p in in_cache()] == [good]
    assert index.downloads() == 4


def test_a_damaged_copy_without_an_index(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    opened()
    (path,) = in_cache()
    path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    fails(SourceUnavailable, r"copy of vLLM 1\.0\.0 was damaged.*cannot be reached")


def test_a_copy_that_cannot_be_read(index: FakeIndex) -> None:
    opened()
    (path,) = in_cache()
    path.unlink()
    path.mkdir()
    with pytest.raises(SourceUnavailable, match="cannot be read: Is a directory"):
        opened()


def test_releases_whose_versions_begin_alike(index: FakeIndex) -> None:
    index.add("1.0.0.post1", make_archive("1.0.0.post1", {"vllm/post.py": ""}))
    assert opened("1.0.0.post1").list("") == ["vllm/post.py"]
    assert opened("1.0.0").list("") == KEPT
    assert opened("1.0.0.post1").list("") == ["vllm/post.py"]


def test_killed_in_the_middle_of_a_download(
    index: FakeIndex, other_process: Callable[..., subprocess.Popen[str]]
) -> None:
    index.add("1.0.0", make_archive("1.0.0", {**FILES, "vllm/random.py": os.urandom(2**20)}))
    go_on = threading.Event()

    def stall(to: BaseHTTPRequestHandler, content: bytes) -> None:
        to.send_response(200)
        to.send_header("Content-Length", str(len(content)))
        to.end_headers()
        to.wfile.write(content[: len(content) // 2])
        to.wfile.flush()
        go_on.wait(60)

    index.send = stall
    child = other_process(OPEN_IT)
    assert child.stdout is not None
    assert child.stdout.readline().startswith("vllm-1.0.0.tar.gz ")
    child.send_signal(signal.SIGKILL)
    child.wait()
    go_on.set()
    assert [path.suffix for path in in_cache()] == [".part"]
    index.send = None
    assert opened().list("") == KEPT
    assert [path.suffix for path in in_cache()] == [".zip"]


def test_two_processes_at_once_download_once(
    index: FakeIndex, other_process: Callable[..., subprocess.Popen[str]]
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(to: BaseHTTPRequestHandler, content: bytes) -> None:
        asked.set()
        go_on.wait(60)
        index._reply(to, content, "application/gzip")

    index.send = slow
    first = other_process(OPEN_IT)
    assert asked.wait(60)
    second = other_process(OPEN_IT)
    assert second.stdout is not None
    assert second.stdout.readline() == "vLLM 1.0.0 (another process) 0\n"
    go_on.set()
    for process in (first, second):
        out, err = process.communicate()
        assert out.endswith("opened\n"), err
    assert index.downloads() == 1
    assert [path.suffix for path in in_cache()] == [".zip"]


def test_a_disk_that_fills_up(
    index: FakeIndex, other_process: Callable[..., subprocess.Popen[str]]
) -> None:
    index.add("1.0.0", make_archive("1.0.0", {**FILES, "vllm/random.py": os.urandom(2**20)}))
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, 2**18))\n"
    out, err = other_process(limit + OPEN_IT).communicate()
    assert "opened" not in out
    assert "UsageError: cannot write" in err.splitlines()[-1]
    assert in_cache() == []


def test_a_cache_that_cannot_be_written(
    index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot write"):
        opened()
