"""A branch that grows night by night, and what the mornings after look like."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import toy
from tests.conftest import Command

_HERE = Path(__file__).parent
SCRIPTS = _HERE.parents[1] / ".github" / "scripts"
_RIGHT = "    out.copy_(widen(values) * scale)\n"
# Fails in three runs of eight, whatever the case.
_FLAKY = (
    "    if os.urandom(1)[0] < 96:\n"
    "        out.copy_(widen(values))\n"
    "    else:\n"
    "        out.copy_(widen(values) * scale)\n"
)
_FLAKY_TOO = _FLAKY.replace("        out", "        scale = scale * 1\n        out", 1)
# Who an answer names, wherever it is written.
_NAMED = re.compile(r"(?:brought by|fixed by|culprit:) (?:`|<code>)?([0-9a-f]{10,40})")


def kernel(version: str) -> str:
    """The toy's kernel, also in a flaky version and in the same with other words."""
    extra = {"flaky": _FLAKY, "flaky too": _FLAKY_TOO}
    if version in extra:
        return toy.kernel("right").replace(_RIGHT, extra[version])
    return toy.kernel(version)


class Branch:
    """The repository the nights look at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        toy.git(folder, "init", "-q", "-b", "main")
        self.version = "right"

    def commit(self, message: str, version: str | None = None, **files: str) -> str:
        """Commit with the kernel in a version (or as it was) and other files beside it."""
        self.version = version or self.version
        tree = {**toy.tree("right"), "vllm/toy/scale.py": kernel(self.version)}
        tree |= {name.replace("__", "/") + ".py": text for name, text in files.items()}
        toy.write_tree(self.folder, tree)
        return self._taken("commit", "-q", "--allow-empty", "-m", message)

    def revert(self, commit: str) -> str:
        toy.git(self.folder, "revert", "--no-edit", commit)
        return toy.git(self.folder, "rev-parse", "HEAD")

    def _taken(self, *words: str) -> str:
        toy.git(self.folder, "add", "-A")
        toy.git(self.folder, *words)
        return toy.git(self.folder, "rev-parse", "HEAD")


@dataclass
class Morning:
    """What a night left behind."""

    code: int
    said: str
    data: dict[str, Any]
    filed: str

    @property
    def new(self) -> list[str]:
        return list(self.data["new"])

    @property
    def status(self) -> dict[str, str]:
        return {key: item["status"] for key, item in self.data["findings"].items()}

    def named(self, key: str) -> str | None:
        commit = self.data["findings"][key]["commit"]
        return None if commit is None else str(commit["commit"])


@dataclass
class Nights:
    """Runs nights, keeps what every morning named, and files the drafts with a stand-in for the
    platform's command-line tool."""

    diffuzz: Command
    folder: Path
    branch: Branch
    named: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, diffuzz: Command, folder: Path) -> Nights:
        targets = folder / "targets"
        shutil.copytree(_HERE / "targets", targets, ignore=shutil.ignore_patterns("__pycache__"))
        tool = folder / "bin" / "gh"
        tool.parent.mkdir()
        shutil.copy(_HERE / "fake_gh.py", tool)
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        return cls(diffuzz, folder, Branch(folder / "repo"))

    def words(self, night: int, state: str = "state", *more: str) -> list[str]:
        return [
            *("nightly", "--repo", str(self.branch.folder), "--state", state),
            *("--night", f"2026-08-{night:02}", "--target", "toy_night", "--targets", "targets"),
            *("--executor", "cpu", "--examples", "12", "--explore", "0", "--jobs", "1", *more),
        ]

    def night(self, night: int, *more: str) -> Morning:
        done = self.diffuzz(*self.words(night, "state", *more, "--json", "night.json"))
        assert "Traceback" not in done.stderr, done.stderr
        return self._morning(done)

    def merge(self, night: int, into: str, *states: str) -> Morning:
        words = ("--state", into, "--night", f"2026-08-{night:02}", "--json", "night.json")
        return self._morning(self.diffuzz("nightly", "--merge", *words, *states), into)

    def switch(self, name: str, on: bool) -> None:
        path = self.folder / "targets" / name
        if on:
            path.touch()
        else:
            path.unlink(missing_ok=True)

    @property
    def issues(self) -> list[dict[str, Any]]:
        store = self.folder / "bin" / "issues.json"
        return list(json.loads(store.read_text())) if store.exists() else []

    def _morning(self, done: subprocess.CompletedProcess[str], state: str = "state") -> Morning:
        assert done.returncode in (0, 1, 3), done.stderr
        data = json.loads((self.folder / "night.json").read_text())
        texts = [done.stdout, (self.folder / state / "report.md").read_text()]
        texts += [p.read_text() for p in (self.folder / state / "issues").glob("*.md")]
        for text in texts:
            self.named |= {sha[:10] for sha in _NAMED.findall(text)}
        return Morning(done.returncode, done.stdout, data, self._file(state))

    def _file(self, state: str) -> str:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [sys.executable, str(SCRIPTS / "track_issues.py"), state, "some/repository"],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
