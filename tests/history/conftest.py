"""Toy histories: git repositories built commit by commit, and findings of the toy target."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from diffuzz import discovery
from diffuzz.arch import get_arch
from diffuzz.casefile import CaseFile, write_case_file
from diffuzz.history import History, history
from diffuzz.sources.repository import Repository

from .. import toy

TARGET = discovery.load("toy_scale", (toy.TARGETS,))
ARCH = get_arch("gfx950")
NARROW = "precision:through-e4m3"
VALUES = {"mode": "plain", "takes_quantised": False, "rows": 16, "scale": 0.037}


class Past:
    """A repository under construction. Methods that commit return the commit's id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        toy.git(folder, "init", "-q", "-b", "main")
        self.clock = 0

    def commit(self, subject: str, files: Mapping[str, str | None]) -> str:
        """One commit that writes ``files``; None removes one."""
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        toy.git(self.folder, "add", "-A")
        return self._committed("commit", "-q", "--allow-empty", "-m", subject)

    def version(self, version: str) -> str:
        """One commit that has the kernel in one of the toy's versions."""
        return self.commit(version, toy.tree(version))

    def noise(self, count: int = 1) -> str:
        for _ in range(count):
            self.clock += 1
            last = self.commit("unrelated", {f"vllm/noise_{self.clock}.py": "x = 1\n"})
        return last

    def branch(self, name: str) -> None:
        toy.git(self.folder, "checkout", "-q", "-b", name)

    def back(self) -> None:
        toy.git(self.folder, "checkout", "-q", "main")

    def merge(self, name: str) -> str:
        return self._committed("merge", "-q", "--no-ff", "-m", f"merge {name}", name)

    def _committed(self, *words: str) -> str:
        # Dates a minute apart: git orders by them.
        self.clock += 1
        date = f"2026-01-01T{self.clock // 60:02d}:{self.clock % 60:02d}:00Z"
        done = subprocess.run(
            ["git", "-c", "user.name=toy", "-c", "user.email=toy@example.invalid", *words],
            cwd=self.folder,
            env={**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return toy.git(self.folder, "rev-parse", "HEAD")

    def variants(self, base: str, head: str = "main", *, all_parents: bool = False) -> History:
        with Repository.open(str(self.folder)) as repository:
            return history(repository, base, head, TARGET, ARCH, all_parents=all_parents)


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return Past(tmp_path / "vllm")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "cache"))


def body(text: str) -> str:
    """The toy kernel's file with another body."""
    head, _, _ = toy.kernel("right").rpartition("    out.copy_")
    return head + text


WriteFinding = Callable[..., str]


@pytest.fixture
def finding(tmp_path: Path) -> WriteFinding:
    def write(signature: str = NARROW, **values: object) -> str:
        path = tmp_path / "finding.yaml"
        kind = signature.partition(":")[0]
        write_case_file(
            path,
            CaseFile(
                str(path),
                target="toy_scale",
                seed=0,
                values={**VALUES, **values},
                arch="gfx950",
                kind=kind,
                signature=signature,
            ),
        )
        return str(path)

    return write
