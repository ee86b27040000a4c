"""Packing revisions and a corpus into one file (:mod:`diffuzz.sources.bundle` reads it).

What is packed is what was asked for: each target is taken out of each revision for every arch,
native ops and facts included, through a source that writes down every question and its answer.
Same revisions, targets and corpus: same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffuzz import __version__, discovery
from diffuzz.arch import ARCHS
from diffuzz.cache import atomic_write
from diffuzz.errors import UsageError
from diffuzz.planning import cut
from diffuzz.slicing import Missing
from diffuzz.sources import Source
from diffuzz.sources.bundle import BLOBS, MANIFEST, SCHEMA, open_bundle
from diffuzz.sources.tree import blob_id, decode

# The earliest date a zip file can hold.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass
class Recorder:
    """A source that answers as another does and remembers questions and answers."""

    source: Source
    files: dict[str, bytes] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    lists: dict[str, list[str]] = field(default_factory=dict)

    @property
    def identity(self) -> Any:
        return self.source.identity

    def _note(self, path: str, content: str | None) -> None:
        if content is None:
            self.absent.add(path)
        else:
            self.files[path] = content.encode()

    def read(self, path: str) -> str | None:
        if path in self.files:
            return decode(self.files[path])
        content = self.source.read(path)
        self._note(path, content)
        return content

    def exists(self, path: str) -> bool:
        there = self.source.exists(path)
        if not there:
            self.absent.add(path)
        elif not any(path in names for names in self.lists.values()):
            self.read(path)
        return there

    def list(self, prefix: str) -> list[str]:
        prefix = prefix.rstrip("/")
        if prefix not in self.lists:
            self.lists[prefix] = self.source.list(prefix)
        return list(self.lists[prefix])

    def blob_id(self, path: str) -> str | None:
        self.read(path)
        return self.source.blob_id(path)


@dataclass(frozen=True)
class Packed:
    """What a bundle came to. ``missing`` lists what a revision has not, as text."""

    path: Path
    size: int
    files: int
    missing: tuple[str, ...]


def pack(
    sources: Sequence[Source],
    targets: Sequence[str],
    out: Path,
    *,
    corpora: Sequence[Path] = (),
    target_folders: tuple[str, ...] = (),
) -> Packed:
    """Write a bundle of ``sources`` for ``targets`` with the cases of ``corpora`` to ``out``.

    A target that a revision lacks is noted, and the questions that found that out are packed, so
    that the bundle says the same. Raises :class:`UsageError` where ``out`` cannot be written.
    """
    blobs: dict[str, bytes] = {}
    revisions, missing = [], []
    for source in sources:
        recorder = Recorder(source)
        for name in targets:
            missing += _ask(recorder, name, target_folders)
        revisions.append(_revision(recorder, blobs))
    manifest = {
        "schema": SCHEMA,
        "diffuzz": __version__,
        "targets": sorted(targets),
        "revisions": revisions,
        "corpus": _corpus(corpora, targets, blobs),
    }
    content = _archive(manifest, blobs)
    atomic_write(out, content)
    return Packed(out, len(content), len(blobs), tuple(missing))


def _ask(recorder: Recorder, name: str, target_folders: tuple[str, ...]) -> list[str]:
    """Ask everything that running a target on any arch asks of a revision."""
    target = discovery.load(name, target_folders)
    reasons: dict[str, list[str]] = {}
    for arch in ARCHS.values():
        piece = cut(recorder, target, arch)
        if isinstance(piece, Missing):
            reasons.setdefault(piece.reason, []).append(arch.name)
    target.facts(recorder)
    return [
        f"{recorder.identity.revision}: {name} on {', '.join(archs)}: {reason}"
        for reason, archs in reasons.items()
    ]


def _revision(recorder: Recorder, blobs: dict[str, bytes]) -> dict[str, Any]:
    identity = recorder.identity
    return {
        "revision": identity.revision,
        "commit": identity.commit,
        "version": identity.version,
        "date": identity.date.isoformat() if identity.date else None,
        "note": identity.note,
        "files": {path: _add(content, blobs) for path, content in recorder.files.items()},
        "absent": sorted(recorder.absent),
        "lists": recorder.lists,
        # Text is packed; where that is not the file's bytes, the file's own id is kept beside it.
        "ids": {
            path: own
            for path, content in recorder.files.items()
            if (own := recorder.source.blob_id(path)) != blob_id(content)
        },
    }


def _add(content: bytes, blobs: dict[str, bytes]) -> str:
    key = hashlib.sha256(content).hexdigest()
    blobs[key] = content
    return key


def _corpus(
    corpora: Sequence[Path], targets: Sequence[str], blobs: dict[str, bytes]
) -> dict[str, str]:
    """The corpora's case files by ``TARGET/NAME.yaml``, read strictly before they are packed."""
    from diffuzz import corpus

    packed: dict[str, str] = {}
    for folder in corpora:
        if not folder.is_dir():
            raise UsageError(f"--corpus {folder}: no such folder")
        for entry in corpus.load_all(folder):
            if entry.target in targets:
                content = Path(entry.file.path).read_bytes()
                packed[f"{entry.target}/{entry.name}"] = _add(content, blobs)
    return packed


def _archive(manifest: Mapping[str, Any], blobs: Mapping[str, bytes]) -> bytes:
    raw = json.dumps(manifest, sort_keys=True, indent=1).encode()
    members = {MANIFEST: raw, **{f"{BLOBS}{key}": blobs[key] for key in sorted(blobs)}}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            out.writestr(info, content, zipfile.ZIP_DEFLATED, 9)
        out.comment = hashlib.sha256(raw).hexdigest().encode()
    return packed.getvalue()


def unpack_corpus(path: Path, folder: Path) -> None:
    """Write the corpus of a bundle to ``folder``, as :mod:`diffuzz.corpus` reads it. Raises
    :class:`UsageError` where a file of another content is in the way."""
    for name, content in open_bundle(path).corpus().items():
        where = folder / name
        if where.is_file() and where.read_bytes() != content:
            raise UsageError(f"{where}: exists and differs; unpack into an empty folder")
        try:
            where.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{where.parent}: {error.strerror}") from None
        atomic_write(where, content)
