"""A vLLM repository: naming its commits, walking its history, reading its objects.

Commands that run once go through GitPython; objects are read through
:class:`~diffuzz.sources.objects.ObjectReader`. Nothing here writes into a local repository.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import git

from diffuzz.errors import RevisionError, SourceUnavailable
from diffuzz.sources import clones
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
_PULL_REQUEST = re.compile(r"\(#(\d+)\)\s*$")


@dataclass(frozen=True)
class Commit:
    """``date`` is the committer's, in UTC; ``pr`` the number GitHub put at the subject's end."""

    sha: str
    date: datetime
    subject: str
    pr: int | None

    @classmethod
    def parse(cls, sha: str, stamp: str, subject: str) -> Commit:
        pr = _PULL_REQUEST.search(subject)
        date = datetime.fromtimestamp(int(stamp), timezone.utc)
        return cls(sha, date, subject, int(pr[1]) if pr else None)


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
        self.objects = ObjectReader(Path(repo.git_dir).absolute(), reader_environment)

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
            self._fetch(revision, found)
            found = self._parse(revision)
        if found is None:
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

    def _fetch(self, revision: str, found: str | None) -> None:
        assert self.url is not None
        if not self._fetched:
            self._fetched = True
            stale = clones.fetch(self._repo, self.url, required=found is None)
            if stale is not None:
                date = self.commit(found or revision).date
                clones.warn(f"{stale}; taking {revision} as of {date:%Y-%m-%d}")
        if found is None and re.fullmatch("[0-9a-f]{40}", revision):
            # A commit no branch holds, such as a pull request's: servers give it when asked.
            with contextlib.suppress(SourceUnavailable):
                if self._parse(revision) is None:
                    clones.fetch(self._repo, self.url, commit=revision, required=True)

    def _unknown(self, revision: str) -> RevisionError:
        names = self._git("for-each-ref", "--format=%(refname:short)").splitlines()
        close = difflib.get_close_matches(revision, names, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        if not close and self.shallow:
            hint = _UNSHALLOW
        return RevisionError(f"no revision {revision!r} in {self}{hint}")

    def commit(self, revision: str) -> Commit:
        sha = self.resolve(revision)
        (found,) = self._commits("--no-walk", sha)
        return found

    def source(self, revision: str) -> GitSource:
        """The revision's files. Raises :class:`RevisionError` if it is unknown or not vLLM."""
        source = GitSource(self, self.commit(revision), revision)
        if not source.has_folder("vllm"):
            raise RevisionError(f"{revision} in {self} is not a vLLM tree (it has no vllm/ folder)")
        return source

    # History

    def head(self) -> str | None:
        """The commit that is checked out, or None before the first."""
        return self._parse("HEAD")

    def edited(self, folders: Sequence[str]) -> int:
        """How many files under ``folders`` differ from HEAD, new ones included."""
        options = ("--porcelain", "--untracked-files=all", "--no-renames", "--")
        return len(self._git("status", *options, *folders).splitlines())

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
            raise SourceUnavailable(f"{self}: {clones.last_line(error)}") from None
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
        if boundary and boundary.intersection(self._git("rev-list", *walk, span).split()):
            raise RevisionError(f"{self} lacks commits between {base} and {head}{_UNSHALLOW}")
        return self._commits("--reverse", "--topo-order", *walk, span, "--", *paths)

    def _commits(self, *arguments: str) -> list[Commit]:
        # rev-list rather than log: no user configuration changes what it prints.
        lines = self._git("rev-list", "--format=%ct %s", *arguments).split("\n")
        pairs = zip(lines[::2], lines[1::2], strict=True) if lines != [""] else ()
        found = []
        for header, line in pairs:
            stamp, _, subject = line.partition(" ")
            found.append(Commit.parse(header.removeprefix("commit "), stamp, subject))
        return found

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
    except git.GitCommandError as error:
        raise SourceUnavailable(f"{folder}: {clones.last_line(error)}") from None
    return found
