"""The folder for things that cost time to get again, and the two primitives that keep it sound.

Everything in it is keyed by content or by name and safe to delete. A file appears whole or not at
all (:func:`atomic_write`, :func:`atomic_file`); work that must be done once is done under
:func:`locked`, whose lock the kernel drops when its holder dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from diffuzz.errors import UsageError


def cache_dir(*parts: str) -> Path:
    """The cache's root, or a folder in it, made if need be.

    ``DIFFUZZ_CACHE`` names the root itself; otherwise it is ``diffuzz`` in ``XDG_CACHE_HOME`` or
    in ``~/.cache``. Raises :class:`UsageError` where it cannot be written.
    """
    folder = _root().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise unwritable(folder, "no permission")
    return folder


def _root() -> Path:
    if chosen := os.environ.get("DIFFUZZ_CACHE"):
        return Path(chosen).expanduser().absolute()
    # The XDG specification says that relative paths are to be ignored.
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):
        return Path(xdg) / "diffuzz"
    try:
        return Path.home() / ".cache" / "diffuzz"
    except RuntimeError:
        raise UsageError("no home directory to keep a cache in; set DIFFUZZ_CACHE") from None


def unwritable(path: Path, why: OSError | str) -> UsageError:
    """The one line a user gets when something cannot be stored."""
    text = why if isinstance(why, str) else why.strerror or str(why)
    return UsageError(f"cannot write {path}: {text}; DIFFUZZ_CACHE can name another folder")


def partial_path(path: Path) -> Path:
    """A name beside ``path`` that nobody else uses; it starts with ``path``'s name."""
    return path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A partial file to fill; on leaving without an error it is made durable and becomes ``path``.

    Raises :class:`UsageError` where the disk refuses.
    """
    partial = partial_path(path)
    try:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        partial.unlink(missing_ok=True)


def atomic_write(path: Path, content: bytes) -> None:
    """Write a whole file: readers see the old content or the new one, never a part."""
    with atomic_file(path) as partial:
        partial.write_bytes(content)


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the exclusive lock of the file ``path`` (made if need be, and never removed).

    ``waiting`` is called once if somebody else holds it. Other threads are kept out as well.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115 (closed below; closing is what unlocks)
    except OSError as error:
        raise unwritable(path, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
