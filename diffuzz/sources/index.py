"""vLLM's releases on the user's package index: which there are, and their source archives."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

import requests
from packaging.version import InvalidVersion, Version
from pypi_simple import (
    DigestMismatchError,
    DistributionPackage,
    NoSuchProjectError,
    PyPISimple,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.util import Retry

from diffuzz.errors import RevisionError, SourceUnavailable
from diffuzz.sources.pipconfig import PipConfig, read_pip_config
from diffuzz.sources.tree import Progress

_PROJECT = "vllm"
_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_ATTEMPTS = 3


@dataclass(frozen=True)
class Archive:
    """The source archive of one release. ``date`` is when it was uploaded, if the index says."""

    version: Version
    sha256: str | None
    date: datetime | None
    yanked: bool
    package: DistributionPackage
    session: requests.Session

    @property
    def name(self) -> str:
        return self.package.filename


class Index:
    """The package indexes pip would ask, in its order. One answer is kept per instance."""

    def __init__(self, config: PipConfig | None = None) -> None:
        self._given = config
        self._kept: tuple[dict[Version, Archive], str | None] | None = None

    @cached_property
    def _config(self) -> PipConfig:
        # Read late: a cached release must open whatever state pip's settings are in.
        return self._given or read_pip_config()

    def _answer(self) -> tuple[dict[Version, Archive], str | None]:
        """Archives by version, and the first index's problem if one could not be asked."""
        if self._kept is not None:
            return self._kept
        found: dict[Version, Archive] = {}
        problem = None if self._config.indexes else "pip is told to use no index (no-index)"
        for url in self._config.indexes:
            try:
                for archive in _ask(url, self._config):
                    found.setdefault(archive.version, archive)
            except SourceUnavailable as error:
                problem = problem or str(error)
        if problem is None:
            self._kept = found, None
        return found, problem

    def versions(self) -> list[Version]:
        """Releases with a source archive, newest first: no pre-releases, nothing withdrawn.

        Raises :class:`SourceUnavailable` if no index could be asked.
        """
        found, problem = self._answer()
        if problem is not None and not found:
            raise SourceUnavailable(problem)
        kept = (v for v, a in found.items() if not (v.is_prerelease or a.yanked))
        return sorted(kept, reverse=True)

    def find(self, version: Version) -> Archive:
        """Raises :class:`RevisionError` if there is no such release, with the nearest, and
        :class:`SourceUnavailable` if an index that might have it could not be asked."""
        found, problem = self._answer()
        if version in found:
            return found[version]
        if problem is not None:
            raise SourceUnavailable(problem)
        hint = nearest(version, list(found))
        raise RevisionError(f"no source archive of vLLM {version} on the package index{hint}")

    def download(self, archive: Archive, path: Path, progress: Progress | None = None) -> None:
        """Stream the archive to ``path`` and check its sha256 on the way.

        Raises :class:`SourceUnavailable` if it cannot be had or is not what the index promises.
        """
        if archive.sha256 is None:
            raise SourceUnavailable(f"{archive.name}: the package index gives no sha256 for it")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with PyPISimple(session=archive.session) as client:
                    client.download_package(
                        archive.package,
                        path,
                        progress=lambda size: _Count(archive.name, size, progress),
                        timeout=self._config.timeout,
                    )
                return
            except DigestMismatchError as error:
                raise SourceUnavailable(
                    f"{archive.name}: its sha256 is {error.actual_digest[:12]}…, not the "
                    f"{error.expected_digest[:12]}… the package index promises"
                ) from None
            except requests.RequestException as error:
                # A connection that broke may hold next time; an answer such as 404 will not.
                if isinstance(error, requests.HTTPError) or attempt == _ATTEMPTS:
                    raise SourceUnavailable(
                        f"cannot download {archive.name}: {_why(error)}"
                    ) from None


class _Count:
    """What pypi-simple reports a download's progress to."""

    def __init__(self, name: str, size: int | None, progress: Progress | None) -> None:
        self._name, self._size, self._progress = name, size, progress
        self._done = 0

    def __enter__(self) -> _Count:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, increment: int) -> None:
        self._done += increment
        if self._progress is not None:
            self._progress(self._name, self._done, self._size)


def nearest(version: Version, known: list[Version]) -> str:
    """A hint with the known versions next to ``version``, or nothing."""
    below = max((v for v in known if v < version), default=None)
    above = min((v for v in known if v > version), default=None)
    near = [str(v) for v in (below, above) if v is not None]
    return f"; the nearest are {' and '.join(near)}" if near else ""


def _ask(url: str, config: PipConfig) -> Iterator[Archive]:
    """All source archives one index has, one per version."""
    session, endpoint = _session(url, config)
    shown = urlsplit(endpoint).hostname or endpoint
    try:
        page = PyPISimple(endpoint, session=session).get_project_page(
            _PROJECT, timeout=config.timeout
        )
    except NoSuchProjectError:
        return
    except requests.RequestException as error:
        raise SourceUnavailable(f"package index {shown}: {_why(error)}") from None
    except (UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError) as error:
        raise SourceUnavailable(f"package index {shown}: {str(error).splitlines()[0]}") from None
    for package in page.packages:
        if package.package_type == "sdist" and package.filename.endswith(_SUFFIXES):
            try:
                version = Version(package.version or "")
            except InvalidVersion:
                continue
            digest = package.digests.get("sha256")
            yanked = bool(package.is_yanked)
            yield Archive(version, digest, package.upload_time, yanked, package, session)


def _why(error: requests.RequestException) -> str:
    """One short line for what requests says in many."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"answered {error.response.status_code} {error.response.reason}"
    kinds = (
        (requests.exceptions.ProxyError, "its proxy cannot be reached"),
        (requests.exceptions.SSLError, "its certificate was not accepted"),
        (requests.exceptions.Timeout, "no answer in time"),
        (requests.exceptions.ChunkedEncodingError, "the connection broke"),
        (requests.exceptions.ConnectionError, "cannot be reached"),
    )
    return next((text for kind, text in kinds if isinstance(error, kind)), str(error))


def _session(url: str, config: PipConfig) -> tuple[requests.Session, str]:
    """A session set up for one index as pip would, and its URL without credentials."""
    session = requests.Session()
    retries = HTTPAdapter(
        max_retries=Retry(total=2, backoff_factor=0.3, status_forcelist=(500, 502, 503, 504))
    )
    session.mount("https://", retries)
    session.mount("http://", retries)
    session.mount("file://", _Files())
    for trusted in config.trusted_hosts:
        for end in "/:":
            session.mount(f"https://{trusted}{end}", _Unchecked())
    if config.cert:
        session.verify = config.cert
    session.cert = config.client_cert
    if config.proxy:
        session.proxies = {"http": config.proxy, "https": config.proxy}
        session.trust_env = False
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if at:
        name, _, password = user.partition(":")
        session.auth = _HostAuth(host, unquote(name), unquote(password))
    return session, urlunsplit(parts._replace(netloc=host))


class _HostAuth(AuthBase):
    """Credentials of an index, for its own host only: archives may lie elsewhere."""

    def __init__(self, host: str, name: str, password: str) -> None:
        self._host = host
        self._basic = HTTPBasicAuth(name, password)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if urlsplit(request.url or "").netloc == self._host:
            self._basic(request)
        return request


class _Unchecked(HTTPAdapter):
    """HTTPS without a look at the certificate, for pip's ``trusted-host``."""

    def send(
        self, request: requests.PreparedRequest, *args: Any, **options: Any
    ) -> requests.Response:
        return super().send(request, *args, **{**options, "verify": False})


class _Files(BaseAdapter):
    """``file://`` indexes, which pip reads and requests does not: a folder of folders, each with
    an ``index.html``."""

    def send(
        self, request: requests.PreparedRequest, *_: object, **__: object
    ) -> requests.Response:
        path = Path(url2pathname(urlsplit(request.url or "").path))
        if path.is_dir():
            path /= "index.html"
        response = requests.Response()
        response.request = request
        response.url = request.url or ""
        response.headers["Content-Type"] = "text/html" if path.suffix == ".html" else ""
        try:
            response.raw = open(path, "rb")  # noqa: SIM115 (closed with the response)
            response.headers["Content-Length"] = str(path.stat().st_size)
            response.status_code = 200
        except OSError as error:
            response.status_code = 404
            response.reason = error.strerror or "unreadable"
            response.raw = io.BytesIO()
        return response

    def close(self) -> None:
        pass
