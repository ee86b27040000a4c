"""A bundle as a source: revisions packed into one file, for machines with neither git nor network.

A bundle is a zip file with ``manifest.json`` and one ``blobs/SHA256`` for each distinct content.
For each revision the manifest says what was asked of it when it was packed, and the answers:
files, paths that do not exist, folder listings. Anything else is an error, never "no such file":
a bundle must not make a revision look smaller than it is.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import zipfile
import zlib
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from diffuzz.errors import RevisionError, SourceUnavailable, UsageError
from diffuzz.sources import Identity
from diffuzz.sources.tree import blob_id, decode

SCHEMA = 1
PREFIX = "bundle:"
MANIFEST = "manifest.json"
BLOBS = "blobs/"
# A bundle of a few revisions is a few megabytes; a file that unpacks to more is not one.
MAX_UNPACKED = 1 << 30
# TARGET/NAME.yaml and nothing else: a corpus is unpacked, and only into its folder.
_CORPUS_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*\.yaml")


@dataclass(frozen=True)
class Bundle:
    """An opened and checked bundle. ``blobs`` maps sha256 to content."""

    path: str
    manifest: dict[str, Any]
    blobs: dict[str, bytes]

    @property
    def revisions(self) -> list[str]:
        return [item["revision"] for item in self.manifest["revisions"]]

    @property
    def targets(self) -> list[str]:
        return list(self.manifest["targets"])

    def corpus(self) -> dict[str, bytes]:
        """Corpus files by ``TARGET/NAME.yaml``."""
        return {name: self.blobs[key] for name, key in sorted(self.manifest["corpus"].items())}

    def source(self, revision: str, shown: str | None = None) -> BundleSource:
        """The packed revision, named as it was packed, by version, or by (part of) a commit id.

        An empty name means the only one. Raises :class:`RevisionError`.
        """
        found = [item for item in self.manifest["revisions"] if _is_named(item, revision)]
        if len(found) != 1:
            what = "several revisions" if found or not revision else f"no {revision}"
            raise RevisionError(f"{self.path} holds {what}: {', '.join(self.revisions)}")
        return BundleSource(self, found[0], shown or f"{PREFIX}{self.path}#{revision}")


class BundleSource:
    """One revision of a bundle."""

    def __init__(self, bundle: Bundle, packed: dict[str, Any], revision: str) -> None:
        self.bundle = bundle
        self._files: dict[str, str] = packed["files"]
        self._absent = frozenset(packed["absent"])
        self._lists: dict[str, list[str]] = packed["lists"]
        self._packed = packed
        self.packed_as: str = packed["revision"]
        self.identity = _identity(packed, revision)

    def _content(self, path: str) -> bytes | None:
        if path in self._files:
            return self.bundle.blobs[self._files[path]]
        if path in self._absent or self._known_absent(path):
            return None
        raise self._lacks(path)

    def _known_absent(self, path: str) -> bool:
        """Whether a listing of a folder above the path says that it does not exist."""
        return any(_is_below(path, top) and path not in self._lists[top] for top in self._lists)

    def _lacks(self, what: str) -> SourceUnavailable:
        targets = ", ".join(self.bundle.targets)
        return SourceUnavailable(
            f"{self.bundle.path} was not asked for {what} of {self.packed_as} when it "
            f"was made (for {targets}); make it again with the targets and diffuzz used here"
        )

    def read(self, path: str) -> str | None:
        content = self._content(path)
        return None if content is None else decode(content)

    def exists(self, path: str) -> bool:
        if any(_is_below(path, top) for top in self._lists):
            return not self._known_absent(path)
        return self._content(path) is not None

    def list(self, prefix: str) -> list[str]:
        prefix = prefix.rstrip("/")
        for top, names in self._lists.items():
            if top == prefix:
                return list(names)
            if _is_below(prefix, top):
                return [name for name in names if _is_below(name, prefix)]
        raise self._lacks(f"the folder {prefix or '.'}")

    def blob_id(self, path: str) -> str | None:
        content = self._content(path)
        return None if content is None else self._packed["ids"].get(path) or blob_id(content)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _is_named(packed: dict[str, Any], name: str) -> bool:
    if not name or name == packed["revision"]:
        return True
    version, commit = packed["version"], packed["commit"]
    if version and name.removeprefix("pypi:").removeprefix("v") == version:
        return True
    return bool(commit) and len(name) >= 7 and commit.startswith(name)


def _identity(packed: dict[str, Any], revision: str) -> Identity:
    date = packed["date"]
    return Identity(
        revision,
        commit=packed["commit"],
        version=packed["version"],
        date=datetime.fromisoformat(date) if date else None,
        note=packed["note"],
    )


def open_bundled(text: str, cwd: Path = Path(".")) -> BundleSource:
    """The source that ``bundle:FILE#REV`` names; ``bundle:FILE`` where it holds one revision."""
    file, _, revision = text.removeprefix(PREFIX).partition("#")
    if not file:
        raise UsageError(f"{text}: names no file; write bundle:FILE#REV")
    return open_bundle(cwd / Path(file).expanduser()).source(revision, text)


def open_bundle(path: Path) -> Bundle:
    """Read and check a bundle.

    Raises :class:`SourceUnavailable` if it cannot be read, is not a bundle, or was changed since
    it was made.
    """
    try:
        state = path.stat()
    except OSError as error:
        raise SourceUnavailable(f"{path}: cannot be read: {error.strerror}") from None
    return _opened(str(path), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _opened(path: str, changed: int, size: int) -> Bundle:
    try:
        with zipfile.ZipFile(path) as packed:
            if sum(item.file_size for item in packed.infolist()) > MAX_UNPACKED:
                raise SourceUnavailable(f"{path}: not a diffuzz bundle: too large")
            raw = packed.read(MANIFEST)
            blobs = {
                name.removeprefix(BLOBS): packed.read(name)
                for name in packed.namelist()
                if name.startswith(BLOBS)
            }
            comment = packed.comment.decode(errors="replace")
    except OSError as error:
        raise SourceUnavailable(f"{path}: cannot be read: {error.strerror or error}") from None
    except KeyError:
        raise SourceUnavailable(f"{path}: not a diffuzz bundle (it has no {MANIFEST})") from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        ValueError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise SourceUnavailable(f"{path}: not a bundle, or damaged: {error}") from None
    return Bundle(path, _checked(path, raw, blobs, comment), blobs)


def _checked(path: str, raw: bytes, blobs: dict[str, bytes], comment: str) -> dict[str, Any]:
    """The manifest, once every content is what its name says and every name has its content."""
    damaged = SourceUnavailable(f"{path}: damaged: its contents do not match its checksums")
    if comment != hashlib.sha256(raw).hexdigest():
        raise damaged
    if any(hashlib.sha256(content).hexdigest() != name for name, content in blobs.items()):
        raise damaged
    try:
        manifest: dict[str, Any] = json.loads(raw)
        schema = manifest["schema"]
        wanted = {k for item in manifest["revisions"] for k in item["files"].values()}
        wanted.update(manifest["corpus"].values())
        strange = [name for name in manifest["corpus"] if not _CORPUS_NAME.fullmatch(name)]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SourceUnavailable(f"{path}: not a diffuzz bundle (its manifest is not one)") from None
    if strange:
        raise SourceUnavailable(f"{path}: not a diffuzz bundle: its corpus names {strange[0]!r}")
    if schema != SCHEMA:
        raise SourceUnavailable(
            f"{path}: a bundle of format {schema}; this diffuzz reads format {SCHEMA}"
        )
    if not wanted <= set(blobs):
        raise damaged
    return manifest
