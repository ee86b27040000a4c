"""The cache folder, whole-file writes and locks."""

from __future__ import annotations

import signal
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from diffuzz.cache import atomic_file, atomic_write, cache_dir, locked
from diffuzz.errors import UsageError


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "own"))
    assert cache_dir("a", "b") == tmp_path / "own/a/b"
    assert (tmp_path / "own/a/b").is_dir()
    monkeypatch.delenv("DIFFUZZ_CACHE")
    assert cache_dir() == tmp_path / "xdg/diffuzz"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir() == tmp_path / "home/.cache/diffuzz"


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"cannot write .*DIFFUZZ_CACHE"):
        cache_dir()
    monkeypatch.setenv("DIFFUZZ_CACHE", "/proc/diffuzz")  # even root cannot make a folder there
    with pytest.raises(UsageError, match="cannot write /proc/diffuzz"):
        cache_dir()


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")
    with pytest.raises(ZeroDivisionError):
        _write_half(path)
    assert path.read_bytes() == b"old"
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
    umask_default = tmp_path / "plain"
    umask_default.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(umask_default.stat().st_mode)


def _write_half(path: Path) -> None:
    with atomic_file(path) as partial:
        partial.write_bytes(b"ne")
        raise ZeroDivisionError


def test_a_disk_that_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        atomic_write(tmp_path / "absent/file", b"")
    with pytest.raises(UsageError, match="cannot write"), locked(Path("/proc/diffuzz/lock")):
        pass


def test_a_lock_keeps_other_threads_out(tmp_path: Path) -> None:
    inside, waited, order = threading.Event(), threading.Event(), []

    def second() -> None:
        inside.wait()
        with locked(tmp_path / "lock", waited.set):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with locked(tmp_path / "lock"):
        inside.set()
        assert waited.wait(60)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_the_lock_of_a_killed_process_is_free(
    tmp_path: Path, other_process: Callable[..., subprocess.Popen[str]]
) -> None:
    script = (
        "import sys, time; from pathlib import Path; from diffuzz.cache import locked\n"
        "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(600)"
    )
    holder = other_process(script, str(tmp_path / "lock"))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    refused: list[bool] = []
    with locked(tmp_path / "lock", lambda: refused.append(True)):
        assert not refused
