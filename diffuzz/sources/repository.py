"""A vLLM repository: naming its commits, walking its history, reading its objects.

Commands that run once go through GitPython; objects are read through
:class:`~diffuzz.sources.objects.ObjectReader`. Nothing here writes into a local repository, except
that a partial clone gets objects it lacks when they are read, as with every git command.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import git

from diffuzz.errors import RevisionError, SourceUnavailable
from diffuzz.sources import clones
from diffuzz.sources.commit import Commit
from diffuzz.sources.git import GitSource
from diffuzz.sources.objects import ObjectReader
from diffuzz.sources.tree import Progress

_MAIN_BRANCHES = (
    "origin/main",
    "upstream/main",
    "main",
    "origin/master",
    "upstream/master",
    "master",
)
_UNSHALLOW = "; the clone is shallow, and git fetch --unshallow brings the rest"
_BATCH = 1000  # names on one command line


class Repository:
    """A git repository on disk: normal, bare, partial or shallow. Made by :meth:`open`.

    ``worktree`` is the checked-out folder, None for a bare repository. ``url`` is set for a clone
    diffuzz made itself; only such a clone is ever fetched into.
    Share one instance per repository and command: it owns one ``git cat-file`` process, which
    ends on :meth:`close`, when the instance is collected, and at exit.
    """

    def __init__(self, repo: git.Repo, name: str, url: str | None = None) -> None:
        self._repo = repo
        self._name = name
        self.url = url
        self._fetched = False
        self._fetch_problem: str | None = None
        self._environment = clones.environment()
        if "GIT_DIR" in os.environ:  # inherited from a hook; it would win over our folder
            self._environment["GIT_DIR"] = str(repo.git_dir)
        # GitPython takes a bare repository without a configuration file for a checked-out one.
        top = None if repo.bare else repo.working_tree_dir
        checked_out = top is not None and (Path(top) / ".git").exists()
        self.worktree = Path(top).resolve() if top is not None and checked_out else None
        self._command = git.Git(self.worktree or repo.git_dir)
        self._command.update_environment(**self._environment)
        reader_environment = {**os.environ, **self._environment}
        self._git_dir = Path(repo.git_dir).absolute()
        self.objects = ObjectReader(self._git_dir, reader_environment)

    @classmethod
    def open(cls, where: str, *, progress: Progress | None = None) -> Repository:
        """The repository of a folder (or of a folder inside its clone), or at a URL.

        A URL is cloned once into the cache, bare and without file contents, which git fetches as
        they are read. Raises :class:`SourceUnavailable` if there is none or it cannot be reached.
        """
        if clones.is_url(where):
            shown = clones.without_password(where)
            return cls(git.Repo(clones.clone(where, progress)), shown, where)
        path = Path(where).expanduser()
        if not path.is_dir():
            raise SourceUnavailable(f"{where}: no such folder")
        found = find_repository(path)
        if found is None:
            raise SourceUnavailable(f"{where}: not a git repository")
        return found

    def __str__(self) -> str:
        return self._name

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.objects.close()
        self._repo.close()

    # Naming commits

    def resolve(self, revision: str) -> str:
        """The full id of the commit a revision names.

        In a clone of a URL, what is unknown is fetched, and so are branches, once, because they
        move. Raises :class:`RevisionError` with close matches if there is no such commit.
        """
        if not revision or revision.startswith("-") or not revision.isprintable():
            raise RevisionError(f"{revision!r} is not a git revision")
        found = self._parse(revision)
        if self.url is not None and (found is None or not self._fixed(revision, found)):
            self._fetch(self.url, revision, found)
            found = self._parse(revision)
        if found is None:
            if self._fetch_problem is not None:
                raise SourceUnavailable(self._fetch_problem)
            raise self._unknown(revision)
        return found

    def has(self, revision: str) -> bool:
        """Whether :meth:`resolve` finds the revision."""
        try:
            self.resolve(revision)
        except RevisionError:
            return False
        return True

    def _parse(self, revision: str) -> str | None:
        try:
            return str(self._git("rev-parse", "--verify", f"{revision}^{{commit}}"))
        except git.GitCommandError as error:
            if "ambiguous" in error.stderr and re.fullmatch("[0-9a-f]+", revision):
                raise RevisionError(
                    f"{revision} is ambiguous in {self}; give more of the commit id"
                ) from None
            return None

    def _fixed(self, revision: str, found: str) -> bool:
        """Whether a revision means the same commit for ever: an id or a tag."""
        return found.startswith(revision) or self._parse(f"refs/tags/{revision}") is not None

    def _fetch(self, url: str, revision: str, found: str | None) -> None:
        if not self._fetched:
            self._fetched = True
            self._fetch_problem = clones.fetch(self._command, self._git_dir, url)
            if self._fetch_problem is not None and found is not None:
                date = self._described(found).date
                clones.warn(f"{self._fetch_problem}; taking {revision} as of {date:%Y-%m-%d}")
        full = re.fullmatch("[0-9a-f]{40}", revision)
        if full and self._fetch_problem is None and self._parse(revision) is None:
            # A commit no branch holds, such as a pull request's: servers give it when asked.
            # If this one does not, the commit stays unknown, and that is what the user is told.
            clones.fetch(self._command, self._git_dir, url, revision)

    def _unknown(self, revision: str) -> RevisionError:
        names = self._told("for-each-ref", "--format=%(refname:short)").splitlines()
        close = difflib.get_close_matches(revision, names, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(close)}" if close else ""
        if not close and self.shallow:
            hint = _UNSHALLOW
        return RevisionError(f"no revision {revision!r} in {self}{hint}")

    def commit(self, revision: str) -> Commit:
        return self._described(self.resolve(revision))

    def _described(self, sha: str) -> Commit:
        (found,) = self._commits("--no-walk", sha)
        return found

    def source(self, revision: str | Commit) -> GitSource:
        """The revision's files; those of a commit already at hand cost no further command.

        Raises :class:`RevisionError` if it is unknown or not vLLM.
        """
        if isinstance(revision, Commit):
            source = GitSource(self, revision, revision.sha)
        else:
            source = GitSource(self, self.commit(revision), revision)
        if not source.has_folder("vllm"):
            raise RevisionError(
                f"{source.identity} in {self} is not a vLLM tree (it has no vllm/ folder)"
            )
        return source

    # History

    def head(self) -> str | None:
        """The commit that is checked out, or None before the first."""
        return self._parse("HEAD")

    def edited(self, folders: Sequence[str]) -> int:
        """How many files under ``folders`` differ from HEAD, new ones included."""
        options = ("--porcelain", "--untracked-files=all", "--no-renames", "--")
        return len(self._told("status", *options, *folders).splitlines())

    @property
    def shallow(self) -> bool:
        return bool(self._shallow_commits())

    def _shallow_commits(self) -> set[str]:
        path = Path(self._repo.common_dir) / "shallow"
        return set(path.read_text().split()) if path.exists() else set()

    def main_branch(self) -> str | None:
        """The branch work is merged into, or None if none has one of the usual names."""
        return next((name for name in _MAIN_BRANCHES if self._parse(name)), None)

    def merge_base(self, one: str, other: str) -> str:
        """The newest commit both have in their history. Raises :class:`RevisionError` if none."""
        try:
            found = self._git("merge-base", self.resolve(one), self.resolve(other))
        except git.GitCommandError:
            hint = _UNSHALLOW if self.shallow else ""
            raise RevisionError(
                f"{one} and {other} have no common history in {self}{hint}"
            ) from None
        return found.splitlines()[0]

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``newer`` has ``older`` in its history, or is it."""
        try:
            self._git("merge-base", "--is-ancestor", self.resolve(older), self.resolve(newer))
        except git.GitCommandError as error:
            if error.status == 1:
                return False
            raise SourceUnavailable(f"{self}: {clones.complaint(error)}") from None
        return True

    def history(
        self, base: str, head: str, paths: Sequence[str] = (), *, first_parent: bool = True
    ) -> list[Commit]:
        """Commits in ``head`` that are not in ``base``, oldest first.

        ``paths`` (files or folders, taken literally) keeps the commits that change one of them;
        renames are not followed, so give every path the code has had. With ``first_parent`` a
        merge counts as one commit that brings all of its branch. Raises :class:`RevisionError`
        where a shallow clone ends in between.
        """
        span = f"{self.resolve(base)}..{self.resolve(head)}"
        walk = ["--first-parent"] if first_parent else ["--full-history"]
        boundary = self._shallow_commits()
        if boundary and boundary.intersection(self._told("rev-list", *walk, span).split()):
            raise RevisionError(f"{self} lacks commits between {base} and {head}{_UNSHALLOW}")
        return self._commits("--reverse", "--topo-order", *walk, span, "--", *paths)

    def root(self, head: str) -> Commit:
        """The first commit of ``head``'s own line, following first parents only."""
        line = self._told("rev-list", "--first-parent", "--max-parents=0", self.resolve(head))
        return self._described(line.split()[0])

    def parents(self, commit: Commit) -> list[Commit]:
        """The commit's parents, the one it was made on first. None for a root."""
        ids = self._told("rev-list", "--no-walk", "--parents", commit.sha).split()[1:]
        return [self._described(sha) for sha in ids]

    def prefetch(self, commits: Iterable[Commit], paths: Sequence[str]) -> None:
        """In a partial clone, get what it lacks of these files at these commits, all at once.

        Reading would get them as well, but with one network request for each. Does nothing in a
        full clone. Raises :class:`SourceUnavailable` if they cannot be fetched.
        """
        remote = self._partial_from()
        # Trees, not commits: of those, rev-list drops the ones that change none of the paths.
        trees = [f"{commit.sha}^{{tree}}" for commit in commits] if remote else []
        lacking: dict[str, None] = {}
        for start in range(0, len(trees), _BATCH):
            options = ("--objects", "--missing=print", *trees[start : start + _BATCH])
            listed = self._told("rev-list", *options, "--", *paths).splitlines()
            lacking.update((line[1:], None) for line in listed if line.startswith("?"))
        ids = list(lacking)
        for start in range(0, len(ids), _BATCH):
            clones.fetch_objects(
                self._command, str(self), remote or "", ids[start : start + _BATCH]
            )

    def _partial_from(self) -> str | None:
        """The remote a partial clone gets its missing objects from; None for a full clone."""
        try:
            set_up = self._git("config", "--get-regexp", r"^remote\..*\.promisor$", "^true$")
        except git.GitCommandError:
            return None
        return set_up.split()[0].removeprefix("remote.").removesuffix(".promisor")

    def _commits(self, *arguments: str) -> list[Commit]:
        # rev-list rather than log: no user configuration changes what it prints.
        lines = self._told("rev-list", "--format=%ct %s", *arguments).split("\n")
        pairs = zip(lines[::2], lines[1::2], strict=True) if lines != [""] else ()
        found = []
        for header, line in pairs:
            stamp, _, subject = line.partition(" ")
            found.append(Commit.parse(header.removeprefix("commit "), stamp, subject))
        return found

    def _told(self, *arguments: str) -> str:
        """What git prints, where it has no reason to fail but a broken repository."""
        try:
            return self._git(*arguments)
        except git.CommandError as error:
            raise SourceUnavailable(f"{self}: {clones.complaint(error)}") from None

    def _git(self, *arguments: str) -> str:
        command = ["git", "--literal-pathspecs", "-c", "i18n.logOutputEncoding=UTF-8", *arguments]
        out = self._command.execute(command, strip_newline_in_stdout=True)
        return str(out).encode(errors="surrogateescape").decode(errors="replace")


def find_repository(folder: Path) -> Repository | None:
    """The git repository ``folder`` is in, or None. Raises :class:`SourceUnavailable` if git
    refuses to read it."""
    try:
        repo = git.Repo(folder, search_parent_directories=True)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        return None
    found = Repository(repo, str(folder))
    try:
        found._git("rev-parse", "--git-dir")
    except git.CommandError as error:
        raise SourceUnavailable(f"{folder}: {clones.complaint(error)}") from None
    return found
