"""What a user may write for a revision, and what is compared when they write nothing.

``.`` or ``path:DIR``
    a working tree, uncommitted edits included
``pypi:0.20.0``
    a release, from its source archive
``bundle:FILE#REV``
    a revision that was packed into a bundle
anything else
    a git revision of the repository; or, where none is given, a release's bare version
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from diffuzz.errors import RevisionError, SourceUnavailable, UsageError
from diffuzz.sources import Source
from diffuzz.sources.tree import Progress

# Each kind of source is imported where it is opened: a bundle needs neither a git library nor a
# package index client, and the machine it is for may have neither.
if TYPE_CHECKING:
    from diffuzz.sources.archive import Releases
    from diffuzz.sources.directory import DirectorySource
    from diffuzz.sources.repository import Repository

_PYPI = "pypi:"
_PATH = "path:"
_BUNDLE = "bundle:"


def open_revision(
    text: str,
    repo: str | Repository | None = None,
    *,
    cwd: str | os.PathLike[str] = ".",
    releases: Releases | None = None,
    progress: Progress | None = None,
) -> Source:
    """The source a revision names.

    ``repo`` is a folder, a URL, or an open repository; without one, the vLLM clone around ``cwd``
    if there is one. Pass open ``repo`` and ``releases`` to share them between calls. Raises
    :class:`UsageError`, :class:`RevisionError` or :class:`SourceUnavailable`, each one line.
    """
    text = text.strip()
    if text == ".":
        return _working_tree(repo, Path(cwd), progress)
    if text.startswith(_PATH):
        folder = text.removeprefix(_PATH)
        if not folder:
            raise UsageError("path: names no folder; write path:DIR")
        from diffuzz.sources.directory import DirectorySource

        return DirectorySource(Path(cwd) / Path(folder).expanduser(), revision=text)
    if text.startswith(_PYPI):
        version = _version(text.removeprefix(_PYPI))
        if version is None:
            raise UsageError(f"{text}: not a version; write for example pypi:0.20.0")
        return _release(version, text, releases, progress)
    if text.startswith(_BUNDLE):
        from diffuzz.sources.bundle import open_bundled

        return open_bundled(text, Path(cwd))
    if not text:
        raise UsageError("an empty revision; write a git revision, pypi:VERSION, path:DIR or .")
    return _bare(text, repo, Path(cwd), releases, progress)


def _bare(
    text: str,
    repo: str | Repository | None,
    cwd: Path,
    releases: Releases | None,
    progress: Progress | None,
) -> Source:
    """A text without a prefix: a git revision first, then a version."""
    version = _version(text)
    if repo is not None:
        repository = _opened(repo, progress)
        try:
            return repository.source(text)
        except RevisionError as error:
            if version is None:
                raise
            raise RevisionError(f"{error}; for the release write {_PYPI}{version}") from None
    around = vllm_clone(cwd)
    if around is not None and (version is None or around.has(text)):
        return around.source(text)
    if version is not None:
        return _release(version, text, releases, progress)
    if (cwd / text).is_dir():
        raise RevisionError(f"{text}: not a git revision; for the folder write {_PATH}{text}")
    raise RevisionError(
        f"{text}: not a version, and there is no vLLM clone here to look it up in; give --repo"
    )


def _release(
    version: Version, text: str, releases: Releases | None, progress: Progress | None
) -> Source:
    if releases is None:
        from diffuzz.sources.archive import Releases

        releases = Releases()
    return releases.source(version, text, progress=progress)


def _opened(repo: str | Repository, progress: Progress | None) -> Repository:
    from diffuzz.sources.repository import Repository

    return repo if isinstance(repo, Repository) else Repository.open(repo, progress=progress)


def _working_tree(
    repo: str | Repository | None, cwd: Path, progress: Progress | None
) -> DirectorySource:
    """The working tree around ``cwd``; where that is not vLLM's, the repository's."""
    from diffuzz.sources.directory import DirectorySource

    try:
        return DirectorySource(cwd, revision=".")
    except RevisionError:
        worktree = _opened(repo, progress).worktree if repo is not None else None
        if worktree is None:
            raise
        return DirectorySource(worktree, revision=".")


def _version(text: str) -> Version | None:
    if "." not in text:  # PEP 440 takes 8a and e5 for versions; they are commit ids
        return None
    try:
        return Version(text)
    except InvalidVersion:
        return None


def vllm_clone(folder: Path) -> Repository | None:
    """The vLLM clone ``folder`` lies in, if it is checked out and is vLLM's."""
    from diffuzz.sources.repository import find_repository

    repository = find_repository(folder)
    worktree = repository.worktree if repository is not None else None
    return repository if worktree is not None and (worktree / "vllm").is_dir() else None


def default_revisions(
    repo: str | None,
    cwd: str | os.PathLike[str] = ".",
    *,
    releases: Releases | None = None,
) -> tuple[str, str]:
    """Baseline and candidate when the user names neither.

    In a vLLM clone (``repo``, or the one around ``cwd``) its work so far: the merge-base of HEAD
    with the main branch against the working tree. Elsewhere the two newest releases. Raises
    :class:`UsageError` for a repository without a working tree.
    """
    if repo is None:
        clone = vllm_clone(Path(cwd))
        if clone is None:
            return _newest_releases(releases)
        candidate = "."
    else:
        from diffuzz.sources.repository import Repository

        clone = Repository.open(repo)
        if clone.worktree is None:
            raise UsageError(f"{repo} has no working tree; give --baseline and --candidate")
        candidate = f"{_PATH}{clone.worktree}"
    main = clone.main_branch()
    if main is None:
        raise UsageError(f"{clone} has no main branch to compare with; give --baseline")
    return clone.merge_base("HEAD", main), candidate


def _newest_releases(releases: Releases | None) -> tuple[str, str]:
    if releases is None:
        from diffuzz.sources.archive import Releases

        releases = Releases()
    versions = releases.available_versions()
    if len(versions) < 2:
        raise SourceUnavailable("the package index has no two releases of vLLM; give --baseline")
    return f"{_PYPI}{versions[1]}", f"{_PYPI}{versions[0]}"
