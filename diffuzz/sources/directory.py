"""A working tree as a source, uncommitted edits included."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from diffuzz.errors import RevisionError, SourceUnavailable
from diffuzz.sources import Identity
from diffuzz.sources.repository import Repository, find_repository
from diffuzz.sources.tree import blob_id, covered, decode, folder_roots

# What builds leave in a working tree. None of it is source, and some of it is large.
_BUILT_FOLDERS = {"__pycache__"}
_BUILT_SUFFIXES = (".pyc", ".so", ".o", ".a")


class DirectorySource:
    """The files of a folder as they were when first read, so that one run sees one state.

    A folder inside a git clone stands for the clone's root. Raises :class:`RevisionError` where
    there is no such folder or no ``vllm/`` in it.
    """

    def __init__(self, folder: str | os.PathLike[str], *, revision: str | None = None) -> None:
        text = os.fspath(folder)
        path = Path(text).expanduser()
        if not path.is_dir():
            raise RevisionError(f"{text}: no such folder")
        self._repository: Repository | None = None
        self.root = path.resolve()
        if not (path / "vllm").is_dir() and (repository := find_repository(path)):
            self.root = repository.worktree or self.root
        if not (self.root / "vllm").is_dir():
            raise RevisionError(f"{text}: not a vLLM tree (it has no vllm/ folder)")
        self._revision = revision or f"path:{text}"
        self._contents: dict[str, bytes | None] = {}

    @cached_property
    def identity(self) -> Identity:
        return Identity(self._revision, note=self._note())

    def _note(self) -> str:
        try:
            repository = find_repository(self.root)
            if repository is None or repository.worktree != self.root:
                return ""
            edits = repository.edited(("vllm", "csrc"))
        except SourceUnavailable as error:  # the files can be read all the same
            return f"edits unknown: {error}"
        count = f"{edits} uncommitted edit{'s' * (edits != 1)}" if edits else "no edits"
        head = repository.head()
        return f"{count} on {head[:12]}" if head else count

    def _content(self, path: str) -> bytes | None:
        if path not in self._contents:
            self._contents[path] = self._load(path) if covered(path) else None
        return self._contents[path]

    def _load(self, path: str) -> bytes | None:
        file = self.root / path
        try:
            # Links are not followed, neither the file's own nor those of the folders above it.
            real = file.is_file() and os.path.realpath(file) == str(file)
            return file.read_bytes() if real else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceUnavailable(f"{file}: cannot be read: {error.strerror}") from None

    def read(self, path: str) -> str | None:
        content = self._content(path)
        return None if content is None else decode(content)

    def exists(self, path: str) -> bool:
        return self._content(path) is not None

    def blob_id(self, path: str) -> str | None:
        content = self._content(path)
        return None if content is None else blob_id(content)

    def list(self, prefix: str) -> list[str]:
        found: list[str] = []
        for start in folder_roots(prefix):
            for folder, below, names in os.walk(self.root / start):
                below[:] = [name for name in below if name not in _BUILT_FOLDERS]
                found += [os.path.join(folder, n) for n in names if not n.endswith(_BUILT_SUFFIXES)]
        paths = (Path(p).relative_to(self.root).as_posix() for p in found if not os.path.islink(p))
        return sorted(paths)
