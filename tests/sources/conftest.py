"""Real parts for the tests of sources: git repositories and a package index on this machine."""

from __future__ import annotations

import hashlib
import io
import os
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import diffuzz


@pytest.fixture(autouse=True)
def _isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A cache of its own, and no settings of this machine (the index test needs pip's)."""
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    if request.node.get_closest_marker("network") is None:
        for name in [n for n in os.environ if n.startswith("PIP_") or n.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        # Nothing listens there, so a test that forgets its index fails instead of going out.
        monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")


def run_git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@dataclass
class Clone:
    """A git repository with a working tree. Each commit is an hour after the one before."""

    path: Path
    hours: int = 0

    def git(self, *arguments: str) -> str:
        return run_git(self.path, *arguments)

    def write(self, path: str, text: str) -> None:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def stamp(self) -> str:
        self.hours += 1
        stamp = f"{1_700_000_000 + 3600 * self.hours} +0530"
        os.environ["GIT_COMMITTER_DATE"] = os.environ["GIT_AUTHOR_DATE"] = stamp
        return stamp

    def commit(self, subject: str, files: Mapping[str, str | None]) -> str:
        """Write (or, for None, delete) files and commit; returns the commit's id."""
        for path, text in files.items():
            if text is None:
                (self.path / path).unlink()
            else:
                self.write(path, text)
        self.git("add", "-A")
        self.stamp()
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def merge(self, branch: str, subject: str) -> str:
        self.stamp()
        self.git("merge", "-q", "--no-ff", "-m", subject, branch)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def new_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Clone]:
    for name in ("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"):
        monkeypatch.setenv(name, "")  # so that what the clones set is undone

    def make(name: str) -> Clone:
        path = tmp_path / name
        path.mkdir()
        run_git(path, "init", "-q", "-b", "main")
        # What a server offers that gives partial clones and single commits.
        run_git(path, "config", "uploadpack.allowFilter", "true")
        run_git(path, "config", "uploadpack.allowAnySHA1InWant", "true")
        return Clone(path)

    return make


@pytest.fixture
def upstream(new_clone: Callable[[str], Clone]) -> Clone:
    """A small vLLM of three commits, tagged v1.0.0 at the second."""
    clone = new_clone("upstream")
    clone.commit(
        "Begin (#1)",
        {
            "vllm/__init__.py": "",
            "vllm/ops/gather.py": "scale = 1\n",
            "csrc/cache.cu": "// one\n",
            "README.md": "not shown\n",
        },
    )
    clone.commit("Scale by two (#22)", {"vllm/ops/gather.py": "scale = 2\n"})
    clone.git("tag", "v1.0.0")
    clone.commit("Change nothing under test", {"README.md": "still not shown\n"})
    return clone


def make_archive(version: str, files: Mapping[str, str | bytes]) -> bytes:
    """A source archive as an index holds it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(f"vllm-{version}/{path}")
            member.size = len(data)
            member.mtime = 1_700_000_000
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


FILES: dict[str, str | bytes] = {
    "vllm/__init__.py": "",
    "vllm/ops/gather.py": "scale = 2\n",
    "vllm/_version.py": "__commit_id__ = commit_id = 'gabc1234'\n",
    "vllm/logo.png": b"\x89PNG\0\0",
    "csrc/cache.cu": "// one\n",
    "tests/test_gather.py": "not kept\n",
    "setup.py": "not kept\n",
}


@dataclass
class FakeIndex:
    """A package index on a port of its own, which can be made to misbehave."""

    url: str = ""
    archives: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    send: Callable[[BaseHTTPRequestHandler, bytes], None] | None = None

    def add(
        self, version: str, content: bytes | None = None, *, hash: str | None = "", more: str = ""
    ) -> bytes:
        """Publish a release; ``hash`` None leaves it out, and a text replaces the true one."""
        content = make_archive(version, FILES) if content is None else content
        name = f"vllm-{version}.tar.gz"
        digest = hashlib.sha256(content).hexdigest() if hash == "" else hash
        fragment = f"#sha256={digest}" if digest else ""
        self.archives[name] = content
        self.links[name] = f'<a href="../../files/{name}{fragment}" {more}>{name}</a>'
        return content

    def downloads(self) -> int:
        return sum(path.startswith("/files/") for path, _ in self.requests)

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        self.requests.append((to.path, to.headers.get("Authorization")))
        content = self.archives.get(to.path.removeprefix("/files/"))
        if to.path == "/simple/vllm/":
            page = "<!DOCTYPE html><html><body>" + "\n".join(self.links.values())
            self._reply(to, page.encode(), "text/html")
        elif content is None:
            to.send_error(404)
        elif self.send is not None:
            self.send(to, content)
        else:
            self._reply(to, content, "application/gzip")

    @staticmethod
    def _reply(to: BaseHTTPRequestHandler, content: bytes, kind: str) -> None:
        to.send_response(200)
        to.send_header("Content-Type", kind)
        to.send_header("Content-Length", str(len(content)))
        to.end_headers()
        to.wfile.write(content)


@pytest.fixture
def new_index() -> Iterator[Callable[..., FakeIndex]]:
    servers: list[ThreadingHTTPServer] = []

    def make(tls: ssl.SSLContext | None = None) -> FakeIndex:
        index = FakeIndex()

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # killed clients
        servers.append(server)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        index.url = f"http{'s' * (tls is not None)}://127.0.0.1:{server.server_address[1]}/simple/"
        return index

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def index(new_index: Callable[..., FakeIndex], monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    """The index pip is set to use; it has vLLM 1.0.0."""
    made = new_index()
    made.add("1.0.0")
    monkeypatch.setenv("PIP_INDEX_URL", made.url)
    return made


def start_python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Another Python process with diffuzz importable."""
    root = str(Path(diffuzz.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


@pytest.fixture
def other_process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: str) -> subprocess.Popen[str]:
        started.append(start_python(script, *arguments))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
