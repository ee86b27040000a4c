"""From what the user calls good and bad to a row of variants in order of time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from diffuzz.arch import Arch
from diffuzz.errors import UsageError
from diffuzz.finding import Direction
from diffuzz.history import History, Variant, Watch, history, release_history, variant_at
from diffuzz.sources.archive import Releases
from diffuzz.sources.repository import Repository
from diffuzz.sources.revision import vllm_clone
from diffuzz.sources.tree import Progress
from diffuzz.target import Target

_PYPI = "pypi:"


@dataclass(frozen=True)
class Row:
    """The variants between good and bad. ``repository`` is None for a row of releases.

    ``aside`` is a claimed end that is not in the row itself (it lies on another branch): its name
    and what was cut from it; it is judged as well.
    """

    good: str
    bad: str
    direction: Direction
    history: History
    repository: Repository | None
    notes: tuple[str, ...] = ()
    aside: tuple[str, Variant] | None = None


def open_row(
    good: str,
    bad: str,
    target: Target,
    arch: Arch,
    repo: str | None,
    *,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Row:
    """The row between two git revisions, or between two releases where there is no repository
    that has them. Raises one line for whatever is wrong with either."""
    for text in (good, bad):
        if text == "." or text.startswith("path:"):
            raise UsageError(
                f"{text}: a working tree has no history; commit it and name the commit"
            )
    repository = Repository.open(repo, progress=progress) if repo else vllm_clone(Path("."))
    versions = [_version(good), _version(bad)]
    if repository is None:
        if None in versions:
            raise UsageError(
                f"{good if versions[0] is None else bad}: not a release, and there is no vLLM"
                " clone here to look it up in; give --repo"
            )
        return _release_row(good, bad, target, arch, progress)
    names = [_in_git(text, repository) for text in (good, bad)]
    if names == [None, None]:
        return _release_row(good, bad, target, arch, progress)
    for text, name in zip((good, bad), names, strict=True):
        if name is None:
            raise UsageError(
                f"{text}: {repository} has no tag of this release; name a commit, or two releases"
            )
    return _git_row((good, bad), (str(names[0]), str(names[1])), target, arch, repository, watch)


def _version(text: str) -> Version | None:
    plain = text.removeprefix(_PYPI)
    if "." not in plain:
        return None
    try:
        return Version(plain)
    except InvalidVersion:
        return None


def _in_git(text: str, repository: Repository) -> str | None:
    """The git revision a text names; for a release its tag, None if there is none."""
    if not text.startswith(_PYPI):
        repository.resolve(text)
        return text
    version = text.removeprefix(_PYPI)
    tags = (f"refs/tags/v{version}", f"refs/tags/{version}")
    return next((tag for tag in tags if repository.has(tag)), None)


def _git_row(
    shown: tuple[str, str],
    ends: tuple[str, str],
    target: Target,
    arch: Arch,
    repository: Repository,
    watch: Watch | None,
) -> Row:
    good, bad = ends
    if repository.is_ancestor(good, bad):
        direction = Direction.REGRESSION
    elif repository.is_ancestor(bad, good):
        direction = Direction.FIXED
    else:
        dates = [repository.commit(end).date for end in ends]
        direction = Direction.REGRESSION if dates[0] <= dates[1] else Direction.FIXED
    older, newer = ends if direction is Direction.REGRESSION else (bad, good)
    found = history(repository, older, newer, target, arch, watch=watch)
    aside = None
    if found.notes:
        claimed = variant_at(repository, older, target, arch)
        aside = (shown[0] if direction is Direction.REGRESSION else shown[1], claimed)
    return Row(*shown, direction, found, repository, found.notes, aside)


def _release_row(good: str, bad: str, target: Target, arch: Arch, progress: Progress | None) -> Row:
    first, second = _version(good), _version(bad)
    assert first is not None
    assert second is not None
    direction = Direction.REGRESSION if first <= second else Direction.FIXED
    found = release_history(
        Releases(), min(first, second), max(first, second), target, arch, progress=progress
    )
    note = "between releases: the answer is the two releases the change lies between"
    return Row(good, bad, direction, found, None, (note,))
