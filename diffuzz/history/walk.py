"""Walking through a git history.

The walk slices once, then looks only at the commits that touch a file the last slice looked at
(files it looked for and did not find included), so its cost grows with the number of versions of
those files and not with the number of commits. What a slice depends on changes over time; commits
that touch what is new are asked for as it appears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from diffuzz.arch import Arch
from diffuzz.errors import RevisionError
from diffuzz.history.variants import NATIVE, Cutter, History, Known, Variant
from diffuzz.sources.commit import Commit
from diffuzz.sources.git import GitSource
from diffuzz.sources.repository import Repository
from diffuzz.target import Target

Watch = Callable[[int, int], None]
"""Told how many revisions of how many are behind."""


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
    start, commits, notes = _line(repository, base, head)
    if all_parents:
        commits = repository.history(start.sha, head, first_parent=False)
    walk = _Walk(repository, [start, *commits], target, arch, watch, not all_parents)
    found = walk.graph() if all_parents else walk.line()
    walk.cutter.save()
    return History(tuple(found), 1 + len(commits), walk.versions, walk.cutter.sliced, tuple(notes))


def variant_at(repository: Repository, revision: str, target: Target, arch: Arch) -> Variant:
    """The code at one commit, as a variant of its own."""
    cutter, source = Cutter(target, arch), repository.source(revision)
    commit = source.commit
    return Variant(cutter.at(source), cutter, source, commit.sha, commit, commit.sha, 1, ())


def _line(repository: Repository, base: str, head: str) -> tuple[Commit, list[Commit], list[str]]:
    """Where the line of ``head`` leaves what ``base`` has (``base`` itself, if it is on it), the
    commits from there to ``head``, and what to say of it."""
    own = repository.commit(base)
    line = repository.history(own.sha, head)
    if not line or (parent := repository.commit(f"{line[0].sha}^1")).sha == own.sha:
        return own, line, []
    note = (
        f"{base} is not on the line of first parents of {head}: history is looked at from"
        f" {parent.sha[:10]} on, where the two part"
    )
    return parent, line, [note]


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
        starts: list[tuple[int, Known]] = [(0, self._at(0))]
        self._ask([starts[0][1], last], 0, waiting)
        while waiting:
            place = min(waiting)
            waiting.remove(place)
            self.watch(place, len(self.commits))
            piece = self._at(place)
            self._ask([piece], place, waiting)
            if piece.key != starts[-1][1].key:
                starts.append((place, piece))
        return list(self._stretches(starts))

    def _stretches(self, starts: Sequence[tuple[int, Known]]) -> Iterator[Variant]:
        ends = [place for place, _ in starts[1:]] + [len(self.commits)]
        for number, ((place, piece), end) in enumerate(zip(starts, ends, strict=True)):
            commit = self.commits[place]
            parents = (number - 1,) if number else ()
            until = self.commits[end - 1].sha
            yield self._variant(piece, commit, until, end - place, parents)

    def _variant(
        self, piece: Known, commit: Commit, until: str, spans: int, parents: tuple[int, ...]
    ) -> Variant:
        source = self.repository.source(commit)
        return Variant(piece, self.cutter, source, commit.sha, commit, until, spans, parents)

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

    def _introduced(self, place: int, piece: Known, found: list[Variant]) -> Variant | None:
        commit = self.commits[place]
        keys = [] if place == 0 else self._parent_keys(commit)
        if piece.key in keys:
            return None
        latest = {variant.key: index for index, variant in enumerate(found)}
        parents = tuple(latest[k] for k in dict.fromkeys(keys) if k in latest)
        return self._variant(piece, commit, commit.sha, 1, parents)

    def _parent_keys(self, commit: Commit) -> list[str]:
        sources = [self.repository.source(p) for p in self.repository.parents(commit)]
        return [self.cutter.at(source).key for source in sources]

    def _at(self, place: int) -> Known:
        self.versions += 1
        return self.cutter.at(self.repository.source(self.commits[place]))

    def _ask(self, pieces: Iterable[Known], since: int, waiting: set[int]) -> None:
        """Add the commits after ``since`` that touch what ``pieces`` newly depend on."""
        paths = sorted(set().union(*(piece.paths for piece in pieces)) - self._asked)
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
        files = [path for path in paths if path != NATIVE]
        self.repository.prefetch([self.commits[place] for place in places], files)
        waiting.update(place for place in places if place > since)
