"""A release of vLLM as a source: its source archive from the package index, cut down and cached.

A cached release is one zip file with the text files of ``vllm/`` and ``csrc/``, named
``VERSION-SHA256.zip`` after its own content, so that a damaged one is known when it is opened.
It is written whole under the release's lock: a download happens once, whoever asks, and one that
is killed leaves only a partial file, which the next removes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import re
import tarfile
import zipfile
import zlib
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

from packaging.version import Version

from diffuzz.cache import atomic_write, cache_dir, locked, partial_path, unwritable
from diffuzz.errors import RevisionError, SourceUnavailable
from diffuzz.sources import Identity
from diffuzz.sources.index import Archive, Index
from diffuzz.sources.tree import Progress, blob_id, covered, decode, folder_roots, is_text

_COMMIT = re.compile(r"\bcommit_id = 'g([0-9a-f]+)'")


class ArchiveSource:
    """The files of one cached release. Made by :meth:`Releases.source`."""

    def __init__(self, cached: zipfile.ZipFile, revision: str) -> None:
        self._zip = cached
        self._names = frozenset(cached.namelist())
        self._about = json.loads(cached.comment)
        self._revision = revision

    @cached_property
    def identity(self) -> Identity:
        date = self._about["date"]
        commit = _COMMIT.search(self.read("vllm/_version.py") or "")
        return Identity(
            self._revision,
            version=self._about["version"],
            date=datetime.fromisoformat(date) if date else None,
            note=f"built from {commit[1]}" if commit else "",
        )

    def _content(self, path: str) -> bytes | None:
        return self._zip.read(path) if path in self._names else None

    def read(self, path: str) -> str | None:
        content = self._content(path)
        return None if content is None else decode(content)

    def exists(self, path: str) -> bool:
        return path in self._names

    def blob_id(self, path: str) -> str | None:
        content = self._content(path)
        return None if content is None else blob_id(content)

    def list(self, prefix: str) -> list[str]:
        folders = tuple(f"{folder}/" for folder in folder_roots(prefix))
        return sorted(name for name in self._names if name.startswith(folders))


class Releases:
    """Releases of vLLM: those the package index has, and those already in the cache."""

    def __init__(self, index: Index | None = None, folder: Path | None = None) -> None:
        self._index = index or Index()
        self._folder = folder or cache_dir("releases")

    def available_versions(self) -> list[Version]:
        """Final releases with a source archive, newest first, withdrawn ones left out.

        Raises :class:`SourceUnavailable` if the index cannot be reached.
        """
        return self._index.versions()

    def source(
        self, version: Version, revision: str | None = None, *, progress: Progress | None = None
    ) -> ArchiveSource:
        """The release's files, from the cache if they are there, else downloaded.

        Raises :class:`RevisionError` if there is no such release, :class:`SourceUnavailable` if
        it cannot be downloaded or is not what the index promises.
        """
        cached = self._open(version)
        if cached is None:
            name = f"vLLM {version}"
            waiting = (lambda: progress(f"{name} (another process)", 0, None)) if progress else None
            with locked(self._folder / f"{version}.lock", waiting):
                damaged = self._drop_damaged(version)
                try:
                    cached = self._open(version) or self._fetch(version, progress)
                except SourceUnavailable as error:
                    if not damaged:
                        raise
                    raise SourceUnavailable(
                        f"the cached copy of {name} was damaged and has been removed; {error}"
                    ) from None
        return ArchiveSource(cached, revision or f"pypi:{version}")

    def _open(self, version: Version) -> zipfile.ZipFile | None:
        """The cached release, if it is there and sound."""
        for path in sorted(self._folder.glob(f"{version}-*.zip")):
            content = _sound(path)
            if content is not None:
                return zipfile.ZipFile(io.BytesIO(content))
        return None

    def _drop_damaged(self, version: Version) -> bool:
        """Remove cached copies that are not what their name says. The release's lock is held."""
        damaged = [p for p in self._folder.glob(f"{version}-*.zip") if _sound(p) is None]
        for path in damaged:
            path.unlink(missing_ok=True)
        return bool(damaged)

    def _fetch(self, version: Version, progress: Progress | None) -> zipfile.ZipFile:
        """Download, check and pack a release. The release's lock is held."""
        for left_over in self._folder.glob(f"{version}-*.part"):
            left_over.unlink(missing_ok=True)
        archive = self._index.find(version)
        download = partial_path(self._folder / f"{version}-download")
        try:
            self._index.download(archive, download, progress)
            content = _pack(download, archive)
        except OSError as error:
            raise unwritable(download, error) from None
        finally:
            download.unlink(missing_ok=True)
        digest = hashlib.sha256(content).hexdigest()
        atomic_write(self._folder / f"{version}-{digest}.zip", content)
        return zipfile.ZipFile(io.BytesIO(content))


def _sound(path: Path) -> bytes | None:
    """A cached release's bytes, or None if they do not hash to what its name says."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceUnavailable(f"{path}: cannot be read: {error.strerror}") from None
    return content if path.stem.endswith(f"-{hashlib.sha256(content).hexdigest()}") else None


def _pack(download: Path, archive: Archive) -> bytes:
    """The zip that is cached: the archive's text files under ``vllm/`` and ``csrc/``."""
    files: dict[str, bytes] = {}
    newest = 0.0
    try:
        with tarfile.open(download) as tar:
            for member in tar:
                _, _, path = member.name.partition("/")
                newest = max(newest, member.mtime)
                if member.isreg() and covered(path):
                    opened = tar.extractfile(member)
                    content = opened.read() if opened else b""
                    if is_text(content):
                        files[path] = content
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile):
        raise SourceUnavailable(f"{archive.name}: not a readable archive") from None
    if not any(path.startswith("vllm/") for path in files):
        raise RevisionError(f"{archive.name} is not a vLLM tree (it has no vllm/ folder)")
    date = archive.date or datetime.fromtimestamp(newest, timezone.utc)
    about = {
        "version": str(archive.version),
        "date": date.astimezone(timezone.utc).isoformat(),
        "archive": archive.name,
        "archive_sha256": archive.sha256,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(files):
            out.writestr(zipfile.ZipInfo(path), files[path], zipfile.ZIP_DEFLATED)
        out.comment = json.dumps(about).encode()
    return packed.getvalue()
