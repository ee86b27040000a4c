"""A git commit as a source, read from objects: nothing is checked out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diffuzz.errors import SourceUnavailable
from diffuzz.sources import Identity
from diffuzz.sources.objects import Folder
from diffuzz.sources.tree import covered, decode, folder_roots

if TYPE_CHECKING:
    from diffuzz.sources.commit import Commit
    from diffuzz.sources.repository import Repository


class GitSource:
    """One commit of a :class:`~diffuzz.sources.repository.Repository`, which made it and whose
    object reader it shares. Cheap to make; a folder is looked up when first asked for."""

    def __init__(self, repository: Repository, commit: Commit, revision: str) -> None:
        self.repository = repository
        self.commit = commit
        self._identity = Identity(revision, commit=commit.sha, date=commit.date)
        self._folders: dict[str, Folder | None] = {}

    @property
    def identity(self) -> Identity:
        return self._identity

    def _folder(self, path: str) -> Folder | None:
        if path not in self._folders:
            found = self.repository.objects.folder(f"{self.commit.sha}:{path}")
            if found is None:
                self._check_absent(path)
            self._folders[path] = found
        return self._folders[path]

    def _check_absent(self, path: str) -> None:
        """Tell a folder the commit does not have from one whose object the clone lacks."""
        if not path or self.has_folder(path):
            where = f"{self.commit.sha[:12]}:{path}"
            raise SourceUnavailable(f"{self.repository}: the clone lacks the folder {where}")

    def has_folder(self, path: str) -> bool:
        """Whether the folder above ``path`` lists it as a folder."""
        above, _, name = path.rpartition("/")
        entry = (self._folder(above) or {}).get(name)
        return entry is not None and entry.kind == "folder"

    def blob_id(self, path: str) -> str | None:
        if not covered(path):
            return None
        above, _, name = path.rpartition("/")
        entry = (self._folder(above) or {}).get(name)
        return entry.id if entry is not None and entry.kind == "file" else None

    def exists(self, path: str) -> bool:
        return self.blob_id(path) is not None

    def read(self, path: str) -> str | None:
        id = self.blob_id(path)
        if id is None:
            return None
        try:
            return decode(self.repository.objects.file(id))
        except SourceUnavailable as error:
            raise SourceUnavailable(f"{self._identity}: {path}: {error}") from None

    def list(self, prefix: str) -> list[str]:
        found: list[str] = []
        pending = list(folder_roots(prefix))
        while pending:
            folder = pending.pop()
            for name, entry in (self._folder(folder) or {}).items():
                if entry.kind == "folder":
                    pending.append(f"{folder}/{name}")
                elif entry.kind == "file":
                    found.append(f"{folder}/{name}")
        return sorted(found)
