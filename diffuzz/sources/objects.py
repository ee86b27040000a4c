"""Reading git objects fast: one ``git cat-file --batch`` per repository, kept alive.

Folders are asked for as ``REVISION:folder``, which git resolves in one step, and files are read by
the ids found there. That never makes git look for a file's content before somebody reads it, so
in a partial clone (``--filter=blob:none``) looking around costs no network.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from diffuzz.errors import SourceUnavailable

_T = TypeVar("_T")

_KEPT_FOLDERS = 2000
_KEPT_FILES = 256


class Entry(NamedTuple):
    """A line of a folder: ``kind`` is ``file``, ``folder``, or ``other`` (links, submodules)."""

    kind: str
    id: str


Folder = Mapping[str, Entry]

_KINDS = {b"100644": "file", b"100755": "file", b"100664": "file", b"40000": "folder"}


def parse_folder(content: bytes, id_size: int) -> dict[str, Entry]:
    """Entries of a raw git tree object whose ids take ``id_size`` bytes."""
    entries = {}
    at = 0
    while at < len(content):
        space = content.index(b" ", at)
        end = content.index(b"\0", space)
        name = content[space + 1 : end].decode("utf-8", errors="surrogateescape")
        kind = _KINDS.get(content[at:space], "other")
        at = end + 1 + id_size
        entries[name] = Entry(kind, content[end + 1 : at].hex())
    return entries


class ObjectReader:
    """Objects of one repository. Safe to share between threads; ends its process on ``close``,
    when garbage collected, and at exit."""

    def __init__(self, git_dir: Path, environment: Mapping[str, str]) -> None:
        self._git_dir = git_dir
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._owner = 0
        self._finalizer: weakref.finalize[..., object] | None = None
        self._folders: OrderedDict[str, Folder] = OrderedDict()
        self._files: OrderedDict[str, bytes] = OrderedDict()

    def folder(self, name: str) -> Folder | None:
        """Entries of the folder git calls ``name`` (``COMMIT:path``), or None if there is none."""
        with self._lock:
            answer = self._ask(name)
            if answer is None or answer[1] != "tree":
                return None
            id, _, content = answer
            if id not in self._folders:
                self._folders[id] = parse_folder(content, len(id) // 2)
            return _keep(self._folders, id, _KEPT_FOLDERS)

    def file(self, id: str) -> bytes:
        """Content of a file. Raises :class:`SourceUnavailable` if the repository lacks it."""
        with self._lock:
            if id not in self._files:
                answer = self._ask(id)
                if answer is None:
                    raise SourceUnavailable(f"{self._git_dir}: object {id} is absent")
                self._files[id] = answer[2]
            return _keep(self._files, id, _KEPT_FILES)

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._log = self._finalizer = None

    def _start(self) -> subprocess.Popen[bytes]:
        # A process started before a fork belongs to the parent: two readers on one pipe would
        # take each other's answers.
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            if self._owner == os.getpid():
                self._stop()
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by _end)
            self._process = subprocess.Popen(
                ["git", f"--git-dir={self._git_dir}", "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environment,
            )
            self._owner = os.getpid()
            self._finalizer = weakref.finalize(self, _end, self._process, self._log, self._owner)
        return self._process

    def _ask(self, name: str) -> tuple[str, str, bytes] | None:
        """Id, type and content of an object, or None if git does not have it."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(name.encode("utf-8", errors="surrogateescape") + b"\n")
            process.stdin.flush()
            header = process.stdout.readline()
            if not header.endswith(b"\n"):
                raise self._died(name)
            if header.endswith((b" missing\n", b" ambiguous\n")):
                return None
            id, kind, size = header.decode().split()
            content = process.stdout.read(int(size) + 1)
        except BrokenPipeError:
            raise self._died(name) from None
        except BaseException:
            # Interrupted between question and answer: the next answer would be to this question.
            self._stop()
            raise
        if len(content) != int(size) + 1:
            raise self._died(name)
        return id, kind, content[:-1]

    def _died(self, name: str) -> SourceUnavailable:
        assert self._process is not None
        assert self._log is not None
        self._process.wait()
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip().splitlines()
        self._stop()
        why = said[-1] if said else "git ended"
        return SourceUnavailable(f"{self._git_dir}: cannot read {name}: {why}")


def _keep(store: OrderedDict[str, _T], key: str, limit: int) -> _T:
    store.move_to_end(key)
    if len(store) > limit:
        store.popitem(last=False)
    return store[key]


def _end(process: subprocess.Popen[bytes], log: IO[bytes], owner: int) -> None:
    if owner == os.getpid():
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, log):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
