"""Where a revision's files come from, without installing or checking anything out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

# GitPython would refuse to be imported without git, which releases and plain folders do not need.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")


@dataclass(frozen=True)
class Identity:
    """Who a source is. ``revision`` is what the user wrote; ``commit`` the full commit id where
    there is one; ``version`` a release's version; ``date`` when it was made, in UTC; ``note`` what
    else a reader should know, such as the edits in a working tree."""

    revision: str
    commit: str | None = None
    version: str | None = None
    date: datetime | None = None
    note: str = ""

    def __str__(self) -> str:
        return self.revision


class Source(Protocol):
    """Read access to one revision of vLLM's tree.

    Paths are relative, with forward slashes. Every kind of source shows the regular files under
    ``vllm/`` and ``csrc/`` and nothing else (no links, no submodules). Reading may raise
    :class:`~diffuzz.errors.SourceUnavailable`, when a file exists but its content cannot be had.
    """

    @property
    def identity(self) -> Identity: ...

    def read(self, path: str) -> str | None:
        """Text of the file, or None where the revision has no such file."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, prefix: str) -> list[str]:
        """Paths of all files under the folder ``prefix``, sorted; ``""`` lists all."""
        ...

    def blob_id(self, path: str) -> str | None:
        """Git's id of the file's content, or None where there is no such file. Equal ids mean
        equal bytes, across sources of every kind."""
        ...
