"""Clones of repositories given by URL: bare, without file contents, kept in the cache.

One process at a time clones or fetches; a clone appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import git
from git.exc import UnsafeProtocolError

from diffuzz.cache import cache_dir, locked, partial_path
from diffuzz.errors import SourceUnavailable
from diffuzz.sources.tree import Progress

_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_FETCH = ("--quiet", "--no-auto-gc", "--no-write-fetch-head", "--filter=blob:none")
_SCP_LIKE = re.compile(r"[\w.-]+@[\w.-]+:.+")

warn = logging.getLogger("diffuzz").warning


def environment() -> dict[str, str]:
    """What keeps git from asking questions, waiting for ever, and translating its messages."""
    return {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_HTTP_LOW_SPEED_LIMIT": "1000",
        "GIT_HTTP_LOW_SPEED_TIME": "60",
    }


def is_url(where: str) -> bool:
    """Whether a repository is named by URL, not by folder."""
    return "://" in where or (_SCP_LIKE.fullmatch(where) is not None and not os.path.exists(where))


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    if parts.scheme and "@" in parts.netloc:
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return url


def complaint(error: git.GitError, said: Sequence[str] = ()) -> str:
    """What went wrong, in one line: the first thing git called an error.

    ``said`` is git's standard error, where it went to a progress report and not into ``error``.
    """
    if isinstance(error, git.GitCommandNotFound):
        return "git is not installed"
    if isinstance(error, UnsafeProtocolError):
        return "a URL of this kind can run commands"
    text = error.stderr if isinstance(error, git.CommandError) else str(error)
    lines = said or text.strip().removeprefix("stderr: ").strip("'\n ").splitlines()
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or list(lines) or ["git failed"])[0].strip().removeprefix("fatal: ")


class _Reported(git.RemoteProgress):
    def __init__(self, what: str, progress: Progress) -> None:
        super().__init__()
        self._what = what
        self._progress = progress

    def update(
        self,
        op_code: int,
        cur_count: str | float,
        max_count: str | float | None = None,
        message: str = "",
    ) -> None:
        if op_code & self.OP_MASK == self.RECEIVING:
            self._progress(self._what, int(cur_count), int(max_count) if max_count else None)


def clone(url: str, progress: Progress | None = None) -> Path:
    """The cached clone of ``url``, made if need be.

    Raises :class:`SourceUnavailable` if the repository cannot be cloned.
    """
    shown = without_password(url)
    name = re.sub(r"[^\w.-]+", "-", urlsplit(shown).path or shown).strip("-").removesuffix(".git")
    key = hashlib.sha256(url.encode()).hexdigest()[:12]
    path = cache_dir("repositories") / f"{name[-40:]}-{key}.git"
    if path.is_dir():
        return path
    with locked(_lock_of(path)):
        for left_over in path.parent.glob(f"{path.name}.*.part"):
            shutil.rmtree(left_over, ignore_errors=True)
        if not path.is_dir():
            partial = partial_path(path)
            report = _Reported(f"clone of {shown}", progress) if progress else None
            try:
                _clone_into(partial, url, report)
                os.rename(partial, path)
            except git.GitError as error:
                why = complaint(error, report.error_lines if report else ())
                raise SourceUnavailable(f"cannot clone {shown}: {why}") from None
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return path


def _clone_into(folder: Path, url: str, report: _Reported | None) -> None:
    options = ["--bare", "--filter=blob:none"]
    progress: Any = report  # GitPython's stubs only know functions here
    git.Repo.clone_from(
        url, folder, progress=progress, env=environment(), multi_options=options
    ).close()


def fetch(command: git.Git, path: Path, url: str, commit: str | None = None) -> str | None:
    """Bring all branches and tags of the cached clone ``path`` up to date, or get one ``commit``.

    Returns what went wrong, or None.
    """
    what = [commit] if commit else ["--prune", "--force", *_REFS]
    with locked(_lock_of(path)):
        try:
            try:
                command.fetch(*_FETCH, "origin", *what)
            except git.GitCommandError as error:
                if ".lock'" not in error.stderr:
                    raise
                # Left by a fetch that was killed: the lock we hold says no other is running.
                for left_over in (*path.glob("*.lock"), *(path / "refs").rglob("*.lock")):
                    left_over.unlink(missing_ok=True)
                command.fetch(*_FETCH, "origin", *what)
        except git.CommandError as error:
            return f"cannot fetch from {without_password(url)}: {complaint(error)}"
    return None


def fetch_objects(command: git.Git, shown: str, remote: str, ids: Sequence[str]) -> None:
    """Get objects a partial clone lacks. Raises :class:`SourceUnavailable`."""
    try:
        command.fetch(*_FETCH, "--no-tags", remote, *ids)
    except git.CommandError as error:
        raise SourceUnavailable(f"{shown}: cannot fetch files: {complaint(error)}") from None


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")
