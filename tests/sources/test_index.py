"""The user's pip settings, and what the indexes they name have."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version
from pypi_simple import PYPI_SIMPLE_ENDPOINT
from urllib3.exceptions import InsecureRequestWarning

from diffuzz.errors import RevisionError, SourceUnavailable, UsageError
from diffuzz.sources.archive import Releases
from diffuzz.sources.index import Index
from diffuzz.sources.pipconfig import PipConfig, read_pip_config

from .conftest import FakeIndex


def versions() -> list[str]:
    return [str(version) for version in Index().versions()]


# Settings


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing of this machine's is found."""
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg")}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_later_places_win(tmp_path: Path, home: dict[str, str]) -> None:
    write(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = http://machine/\ntimeout = 3\n")
    assert read_pip_config(home).indexes == ("http://machine/",)
    write(tmp_path / ".config/pip/pip.conf", "[global]\nindex_url = http://user\n[install]\nx=1\n")
    assert read_pip_config(home).indexes == ("http://user/",)
    write(
        tmp_path / "own.conf", "[global]\nindex-url = http://a\n[download]\nindex-url = http://b\n"
    )
    home["PIP_CONFIG_FILE"] = str(tmp_path / "own.conf")
    assert read_pip_config(home).indexes == ("http://b/",)
    home["PIP_INDEX_URL"] = "http://variable/"
    home["PIP_EXTRA_INDEX_URL"] = "http://more/simple  http://variable"
    home["PIP_PROXY"] = ""
    config = read_pip_config(home)
    assert config.indexes == ("http://variable/", "http://more/simple/")
    assert (config.timeout, config.proxy) == (3.0, None)


def test_all_settings(home: dict[str, str], tmp_path: Path) -> None:
    text = "cert = /c\nclient-cert = /k\nproxy = http://p\ndefault-timeout = 7\n"
    write(tmp_path / "own.conf", f"[global]\n{text}trusted-host =\n  a\n  b:8443\n")
    home["PIP_CONFIG_FILE"] = str(tmp_path / "own.conf")
    indexes, trusted = (PYPI_SIMPLE_ENDPOINT,), ("a", "b:8443")
    assert read_pip_config(home) == PipConfig(indexes, trusted, "/c", "/k", "http://p", 7.0)


def test_nothing_set_means_pypi(home: dict[str, str]) -> None:
    home["PIP_CONFIG_FILE"] = os.devnull
    assert read_pip_config(home) == PipConfig((PYPI_SIMPLE_ENDPOINT,))


def test_settings_that_cannot_be_read(tmp_path: Path, home: dict[str, str]) -> None:
    write(tmp_path / "own.conf", "index-url = no section\n")
    home["PIP_CONFIG_FILE"] = str(tmp_path / "own.conf")
    with pytest.raises(UsageError, match=r"own\.conf cannot be read") as caught:
        read_pip_config(home)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="timeout is not a number"):
        read_pip_config({"PIP_CONFIG_FILE": os.devnull, "PIP_TIMEOUT": "soon"})


# Indexes


def test_final_releases_newest_first(index: FakeIndex) -> None:
    for version in ("0.9.2", "0.10.0", "1.1.0rc1", "1.0.0.post1", "1.2.dev3"):
        index.add(version)
    index.add("1.5.0", more='data-yanked="broken"')
    index.links["wheel"] = '<a href="vllm-2.0.0-py3-none-any.whl">vllm-2.0.0-py3-none-any.whl</a>'
    index.links["odd"] = '<a href="vllm-nonsense.tar.gz">vllm-nonsense.tar.gz</a>'
    assert versions() == ["1.0.0.post1", "1.0.0", "0.10.0", "0.9.2"]


def test_a_withdrawn_release_can_still_be_named(index: FakeIndex) -> None:
    index.add("1.5.0", more='data-yanked=""')
    assert Releases().source(Version("1.5.0")).exists("vllm/__init__.py")


def test_the_index_is_asked_once(index: FakeIndex) -> None:
    releases = Releases()
    releases.available_versions()
    releases.source(Version("1.0.0"))
    assert [path for path, _ in index.requests] == ["/simple/vllm/", "/files/vllm-1.0.0.tar.gz"]


def test_a_further_index_adds_releases(
    index: FakeIndex, new_index: Callable[..., FakeIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    more, empty = new_index(), new_index()
    more.add("1.0.0")
    more.add("2.0.0")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{empty.url}absent/ {more.url}")
    assert versions() == ["2.0.0", "1.0.0"]
    Releases().source(Version("1.0.0"))
    assert (index.downloads(), more.downloads()) == (1, 0)


def test_a_further_index_that_is_down(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://127.0.0.1:9/simple/")
    assert versions() == ["1.0.0"]
    assert Index().find(Version("1.0.0"))
    # The one that is down may have it, so nobody can say that it does not exist.
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        Index().find(Version("3.0.0"))


def test_an_index_that_comes_back(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Index(PipConfig((index.url, "http://127.0.0.1:9/simple/")))
    assert asked.versions() == asked.versions()
    assert len(index.requests) == 2


def test_no_index(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SourceUnavailable, match="no-index"):
        Index().versions()
    assert index.requests == []


def test_an_index_without_vllm(new_index: Callable[..., FakeIndex]) -> None:
    empty = Index(PipConfig((new_index().url + "absent/",)))
    assert empty.versions() == []
    with pytest.raises(RevisionError, match=r"no source archive of vLLM 1\.0"):
        empty.find(Version("1.0"))


def test_a_page_that_is_no_index(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeIndex, "_reply", staticmethod(_plain_text))
    with pytest.raises(SourceUnavailable, match=r"package index 127\.0\.0\.1: ") as caught:
        Index().versions()
    assert "\n" not in str(caught.value)


def _plain_text(to: object, *_: object) -> None:
    to.send_response(200)  # type: ignore[attr-defined]
    to.send_header("Content-Type", "text/plain")  # type: ignore[attr-defined]
    to.send_header("Content-Length", "0")  # type: ignore[attr-defined]
    to.end_headers()  # type: ignore[attr-defined]


def test_credentials_go_to_their_own_host_and_into_no_message(
    index: FakeIndex, new_index: Callable[..., FakeIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = new_index()
    files.archives = index.archives
    link = index.links["vllm-1.0.0.tar.gz"]
    index.links["vllm-1.0.0.tar.gz"] = link.replace("../../", files.url.replace("simple/", ""))
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("//", "//me:sec%40ret@"))
    Releases().source(Version("1.0.0"))
    assert [auth for _, auth in index.requests] == ["Basic bWU6c2VjQHJldA=="]
    assert [auth for _, auth in files.requests] == [None]
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:secret@127.0.0.1:9/simple/")
    with pytest.raises(SourceUnavailable) as caught:
        Index().versions()
    assert "secret" not in str(caught.value)


def test_a_trusted_host_needs_no_accepted_certificate(
    new_index: Callable[..., FakeIndex], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=nobody"]
    subprocess.run([*made, "-keyout", "key", "-out", "cert"], cwd=tmp_path, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    secure = new_index(context)
    secure.add("1.0.0")
    monkeypatch.setenv("PIP_INDEX_URL", secure.url)
    with pytest.raises(SourceUnavailable, match="certificate was not accepted"):
        Index().versions()
    monkeypatch.setenv("PIP_TRUSTED_HOST", "127.0.0.1 other.example.org")
    with pytest.warns(InsecureRequestWarning):
        assert versions() == ["1.0.0"]


def test_a_proxy_is_used(
    index: FakeIndex, new_index: Callable[..., FakeIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = new_index()
    monkeypatch.setenv("PIP_PROXY", proxy.url.replace("/simple/", ""))
    monkeypatch.setenv("PIP_INDEX_URL", "http://index.invalid/simple/")
    assert Index().versions() == []
    assert [path for path, _ in proxy.requests] == ["http://index.invalid/simple/vllm/"]
    monkeypatch.setenv("PIP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(SourceUnavailable, match="proxy cannot be reached"):
        Index().versions()


def test_an_index_in_a_folder(
    index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in index.archives.items():
        write(tmp_path / "tree/files/x", "")
        (tmp_path / "tree/files" / name).write_bytes(content)
    write(tmp_path / "tree/simple/vllm/index.html", "\n".join(index.links.values()))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "tree/simple").as_uri())
    assert Releases().source(Version("1.0.0")).exists("vllm/__init__.py")
    assert index.requests == []
    shutil.rmtree(tmp_path / "tree")
    assert Index().versions() == []
