"""The variants of a kernel over history: its distinct slices, each with the revision it came with.

The walk slices once, then looks only at the commits that touch a file the last slice looked at
(files it looked for and did not find included), so its cost grows with the number of versions of
those files and not with the number of commits. What a slice depends on changes over time; commits
that touch what is new are asked for as it appears.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from diffuzz.arch import Arch
from diffuzz.errors import RevisionError
from diffuzz.planning import Piece, cut
from diffuzz.slicing import Missing, Slice, holds
from diffuzz.sources import Source
from diffuzz.sources.archive import Releases
from diffuzz.sources.commit import Commit
from diffuzz.sources.git import GitSource
from diffuzz.sources.repository import Repository
from diffuzz.sources.tree import Progress
from diffuzz.target import Target

Cut = Piece | Missing
Watch = Callable[[int, int], None]
"""Told how many revisions of how many are behind."""


@dataclass(frozen=True)
class Variant:
    """A stretch of history in which the kernel is the same.

    ``revision`` names the first revision that has it (a full commit id, or a release), ``until``
    the last one, ``spans`` how many revisions in a row do. ``parents`` are the indices of the
    variants it came from: the one before, or in the full graph those of the parent commits.
    """

    cut: Cut
    revision: str
    commit: Commit | None
    until: str
    spans: int
    parents: tuple[int, ...]

    @property
    def hash(self) -> str | None:
        return None if isinstance(self.cut, Missing) else self.cut.slice.hash

    @property
    def reason(self) -> str | None:
        """Why there is no slice, None where there is one."""
        return self.cut.reason if isinstance(self.cut, Missing) else None

    @property
    def key(self) -> str:
        """Equal keys mean equal behaviour."""
        return key(self.cut)

    @property
    def absent(self) -> bool:
        """Whether the code does not exist there (and not merely cannot be followed)."""
        begins = ("no file ", "no symbol ", "none of the entries exists")
        return self.reason is not None and self.reason.startswith(begins)


@dataclass(frozen=True)
class History:
    """Variants between two revisions, oldest first.

    ``revisions`` counts those covered, both ends included, ``versions`` those whose files were
    looked at, ``sliced`` those that had to be sliced.
    """

    variants: tuple[Variant, ...]
    revisions: int
    versions: int
    sliced: int
    notes: tuple[str, ...] = ()

    @property
    def distinct(self) -> int:
        return len({v.hash for v in self.variants if v.hash is not None})


class Cutter:
    """Slices of one target and arch at any revision; what holds at another one is not cut again."""

    def __init__(self, target: Target, arch: Arch) -> None:
        self.target = target
        self.arch = arch
        self.sliced = 0
        self._known: list[Cut] = []

    def at(self, source: Source) -> Cut:
        # The newest first: neighbours in history look alike.
        for number, piece in enumerate(reversed(self._known)):
            if holds(whole(piece), source):
                self._known.append(self._known.pop(-1 - number))
                return piece
        piece = cut(source, self.target, self.arch)
        self.sliced += 1
        self._known.append(piece)
        return piece

    @staticmethod
    def paths(piece: Cut) -> set[str]:
        """The files that decide what the slice is, present or not."""
        return {path for path, _ in whole(piece).dependencies}


def code_begins(repository: Repository, head: str, target: Target) -> Commit:
    """The first commit of ``head``'s own line that has a file of the target's first entry."""
    paths = [path for entry in target.entries if not entry.optional for path in entry.paths]
    root = repository.root(head)
    for commit in [root, *repository.history(root.sha, head, paths)]:
        source = GitSource(repository, commit, commit.sha)
        if any(source.exists(path) for path in paths):
            return commit
    raise RevisionError(f"{head} in {repository} never had {' or '.join(dict.fromkeys(paths))}")


def history(
    repository: Repository,
    base: str,
    head: str,
    target: Target,
    arch: Arch,
    *,
    all_parents: bool = False,
    watch: Watch | None = None,
) -> History:
    """The variants from ``base`` (included, if it is on ``head``'s line) to ``head``.

    Only first parents are followed, so a merge is one commit that brings all of its branch;
    ``all_parents`` follows every parent. Raises what the repository raises.
    """
    start, notes = _start(repository, base, head)
    commits = repository.history(start.sha, head, first_parent=not all_parents)
    walk = _Walk(repository, [start, *commits], target, arch, watch, not all_parents)
    found = walk.graph() if all_parents else walk.line()
    return History(tuple(found), 1 + len(commits), walk.versions, walk.cutter.sliced, tuple(notes))


def _start(repository: Repository, base: str, head: str) -> tuple[Commit, list[str]]:
    """Where the line of ``head`` leaves what ``base`` has: ``base`` itself, if it is on it."""
    own = repository.commit(base)
    line = repository.history(own.sha, head)
    if not line or (parent := repository.commit(f"{line[0].sha}^1")).sha == own.sha:
        return own, []
    note = (
        f"{base} is not on the line of first parents of {head}: history is looked at from"
        f" {parent.sha[:10]} on, where the two part"
    )
    return parent, [note]


class _Walk:
    """One walk over ``commits`` (oldest first, the first one the base)."""

    def __init__(
        self,
        repository: Repository,
        commits: Sequence[Commit],
        target: Target,
        arch: Arch,
        watch: Watch | None,
        first_parent: bool,
    ) -> None:
        self.repository = repository
        self.commits = commits
        self.cutter = Cutter(target, arch)
        self.watch = watch or (lambda done, total: None)
        self.first_parent = first_parent
        self.versions = 0
        self._place = {commit.sha: index for index, commit in enumerate(commits)}
        self._asked: set[str] = set()

    def line(self) -> list[Variant]:
        """Variants along a line. Commits to look at are found as dependencies appear."""
        # Both ends first: most of what is ever depended on is known by then, and asked at once.
        last = self._at(len(self.commits) - 1)
        waiting: set[int] = set()
        starts: list[tuple[int, Cut]] = [(0, self._at(0))]
        self._ask([starts[0][1], last], 0, waiting)
        while waiting:
            place = min(waiting)
            waiting.remove(place)
            self.watch(place, len(self.commits))
            piece = self._at(place)
            self._ask([piece], place, waiting)
            if key(piece) != key(starts[-1][1]):
                starts.append((place, piece))
        return list(self._stretches(starts))

    def _stretches(self, starts: Sequence[tuple[int, Cut]]) -> Iterator[Variant]:
        ends = [place for place, _ in starts[1:]] + [len(self.commits)]
        for number, ((place, piece), end) in enumerate(zip(starts, ends, strict=True)):
            commit = self.commits[place]
            parents = (number - 1,) if number else ()
            until = self.commits[end - 1].sha
            yield Variant(piece, commit.sha, commit, until, end - place, parents)

    def graph(self) -> list[Variant]:
        """Variants in the full graph: commits whose slice differs from that of every parent."""
        waiting: set[int] = set()
        pieces = {0: self._at(0), len(self.commits) - 1: self._at(len(self.commits) - 1)}
        self._ask(pieces.values(), 0, waiting)
        while fresh := waiting - set(pieces):
            for place in sorted(fresh):
                pieces[place] = self._at(place)
            # A new dependency may have been touched anywhere, also in a branch begun before.
            self._ask([pieces[place] for place in fresh], 0, waiting)
        found: list[Variant] = []
        for place in sorted(waiting | {0}):
            variant = self._introduced(place, pieces[place], found)
            if variant is not None:
                found.append(variant)
        return found

    def _introduced(self, place: int, piece: Cut, found: list[Variant]) -> Variant | None:
        commit = self.commits[place]
        keys = [] if place == 0 else self._parent_keys(commit)
        if key(piece) in keys:
            return None
        latest = {variant.key: index for index, variant in enumerate(found)}
        parents = tuple(latest[k] for k in dict.fromkeys(keys) if k in latest)
        return Variant(piece, commit.sha, commit, commit.sha, 1, parents)

    def _parent_keys(self, commit: Commit) -> list[str]:
        sources = [self.repository.source(p) for p in self.repository.parents(commit)]
        return [key(self.cutter.at(source)) for source in sources]

    def _at(self, place: int) -> Cut:
        self.versions += 1
        return self.cutter.at(self.repository.source(self.commits[place]))

    def _ask(self, pieces: Iterable[Cut], since: int, waiting: set[int]) -> None:
        """Add the commits after ``since`` that touch what ``pieces`` newly depend on."""
        paths = sorted(set().union(*map(Cutter.paths, pieces)) - self._asked)
        if not paths or since == len(self.commits) - 1:
            return
        self._asked.update(paths)
        touching = self.repository.history(
            self.commits[since].sha,
            self.commits[-1].sha,
            paths,
            first_parent=self.first_parent,
        )
        places = [self._place[commit.sha] for commit in touching if commit.sha in self._place]
        self.repository.prefetch([self.commits[place] for place in places], paths)
        waiting.update(place for place in places if place > since)


def whole(piece: Cut) -> Slice | Missing:
    """What says which files were looked at."""
    return piece if isinstance(piece, Missing) else piece.slice


def key(piece: Cut) -> str:
    """Equal keys mean equal behaviour, and a stretch of equal keys is one variant."""
    return f"missing: {piece.reason}" if isinstance(piece, Missing) else piece.slice.hash


def release_history(
    releases: Releases,
    older: Version,
    newer: Version,
    target: Target,
    arch: Arch,
    *,
    progress: Progress | None = None,
) -> History:
    """The variants of all releases from ``older`` to ``newer``, both included."""
    between: Collection[Version] = [v for v in releases.available_versions() if older < v < newer]
    versions = [older, *sorted(between), newer]
    cutter = Cutter(target, arch)
    found: list[Variant] = []
    for version in versions:
        piece = cutter.at(releases.source(version, progress=progress))
        if found and found[-1].key == key(piece):
            found[-1] = replace(found[-1], until=f"pypi:{version}", spans=found[-1].spans + 1)
        else:
            parents = (len(found) - 1,) if found else ()
            name = f"pypi:{version}"
            found.append(Variant(piece, name, None, name, 1, parents))
    return History(tuple(found), len(versions), len(versions), cutter.sliced)
