"""Variants, and what is known of the code at one revision."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Union

from diffuzz.arch import Arch
from diffuzz.cache import atomic_write, cache_dir
from diffuzz.slicing import Missing
from diffuzz.sources import Source
from diffuzz.sources.commit import Commit
from diffuzz.target import Target
from diffuzz.verdicts import digest, target_digest, tool_digest

if TYPE_CHECKING:
    from diffuzz.planning import Piece

Cut = Union["Piece", Missing]

NATIVE = "csrc"
_ABSENT = ("no file ", "no symbol ", "none of the entries exists")
_SLICER_SAYS = (*_ABSENT, "missing ", "cannot parse")
_REMEMBERED = 2000


@dataclass(frozen=True)
class Known:
    """What is known of the code at a revision. ``key`` is its identity: equal keys mean equal
    behaviour. ``reason`` says why there is no slice, None where there is one; ``dependencies`` are
    those of the slice; ``piece`` is None where this was remembered from an earlier walk."""

    key: str
    reason: str | None
    dependencies: frozenset[tuple[str, str | None]]
    piece: Cut | None = None

    @property
    def native(self) -> bool:
        """Whether it is native code that could not be followed: any of its files may matter."""
        said = self.reason
        if said is None:
            return False
        return said.startswith("missing op ") or not said.startswith(_SLICER_SAYS)

    @property
    def paths(self) -> set[str]:
        """The files and folders that decide what the code is, present or not."""
        own = {path for path, _ in self.dependencies}
        return own | {NATIVE} if self.native else own

    def holds(self, source: Source) -> bool:
        """Whether the code at ``source``'s revision is this."""
        equal = all(source.blob_id(path) == blob for path, blob in self.dependencies)
        return equal and not self.native


@dataclass(frozen=True)
class Variant:
    """A stretch of history in which the kernel is the same.

    ``revision`` names the first revision that has it (a full commit id, or a release), ``until``
    the last one, ``spans`` how many revisions in a row do (1 in the full graph, where there is no
    row). ``parents`` are the indices of the variants it came from: the one before, or in the full
    graph those of the parent commits.
    """

    known: Known
    cutter: Cutter
    source: Source
    revision: str
    commit: Commit | None
    until: str
    spans: int
    parents: tuple[int, ...]

    def revision_data(self) -> dict[str, Any]:
        """The first revision that has the variant, for reports: its commit, or its release."""
        commit = self.commit
        if commit is None:
            return {"release": self.revision}
        return {
            "commit": commit.sha,
            "date": commit.date.isoformat(),
            "subject": commit.subject,
            "pr": commit.pr,
        }

    @cached_property
    def cut(self) -> Cut:
        """The slice, or why there is none; cut now if it was remembered."""
        return self.known.piece or self.cutter.cut(self.source)

    @property
    def hash(self) -> str | None:
        return self.known.key if self.known.reason is None else None

    @property
    def reason(self) -> str | None:
        """Why there is no slice, None where there is one."""
        return self.known.reason

    @property
    def key(self) -> str:
        """Equal keys mean equal behaviour."""
        return self.known.key

    @property
    def absent(self) -> bool:
        """Whether the code does not exist there (and not merely cannot be followed)."""
        return self.reason is not None and self.reason.startswith(_ABSENT)


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
    """Knows the code of one target and arch at any revision. What has the same dependencies is
    the same slice, so each is cut once: in this process, and by :meth:`save` in later ones."""

    def __init__(self, target: Target, arch: Arch) -> None:
        self.target = target
        self.arch = arch
        self.sliced = 0
        inputs = [target.name, target_digest(target), arch.name, tool_digest(), sys.version]
        self._path = cache_dir("variants") / f"{digest(inputs)}.json"
        self._known = self._load()

    @property
    def remembers(self) -> bool:
        """Whether anything was cut before, here or by an earlier command."""
        return bool(self._known)

    def at(self, source: Source) -> Known:
        # The newest first: neighbours in history look alike.
        for number, known in enumerate(reversed(self._known)):
            if known.holds(source):
                self._known.append(self._known.pop(-1 - number))
                return known
        known = _known(self.cut(source))
        self._known.append(known)
        return known

    def cut(self, source: Source) -> Cut:
        from diffuzz.planning import cut  # brings torch, which a walk over known code needs not

        self.sliced += 1
        return cut(source, self.target, self.arch)

    def save(self) -> None:
        """Remember what was cut. Safe to lose; the dependencies are content ids, so it holds for
        every repository."""
        if self.sliced:
            keep = [
                [known.key, known.reason, sorted(known.dependencies, key=str)]
                for known in self._known[-_REMEMBERED:]
                if not known.native
            ]
            atomic_write(self._path, json.dumps(keep).encode())

    def _load(self) -> list[Known]:
        try:
            stored = json.loads(self._path.read_bytes())
            return [
                Known(str(key), reason, frozenset((path, blob) for path, blob in dependencies))
                for key, reason, dependencies in stored
            ]
        except (OSError, ValueError, TypeError):
            return []  # never stored, deleted, or damaged: it is cut again


def _known(piece: Cut) -> Known:
    if isinstance(piece, Missing):
        return Known(f"missing: {piece.reason}", piece.reason, piece.dependencies, piece)
    return Known(piece.slice.hash, None, piece.slice.dependencies, piece)
