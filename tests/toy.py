"""A toy vLLM: a tree with one kernel for the ``toy_scale`` target, in a right version and in every
kind of wrong one, and git repositories made of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TARGETS = str(Path(__file__).parent / "toy_targets")

_HEAD = """\
import os
import time

import torch

from vllm.platforms import current_platform


def widen(values):
    return values.to(torch.float32)


"""

_BODIES = {
    "right": "    out.copy_(widen(values) * scale)\n",
    "right, written otherwise": (
        "    # nothing but the spelling differs\n"
        "    wide = widen(values)\n"
        "    out.copy_(wide * scale)\n"
    ),
    "narrow": "    out.copy_((widen(values) * scale).to(values.dtype).to(torch.float32))\n",
    "asserts": (
        "    assert backend.takes_quantised, 'this toy wants a quantised query'\n"
        "    out.copy_(widen(values) * scale)\n"
    ),
    "forgets the scale": "    out.copy_(widen(values))\n",
    "writes nothing": "    pass\n",
    "dies": "    os.abort()\n",
    "hangs": "    time.sleep(600)\n",
    "raises": "    raise KeyError('toy')\n",
    "changes its input": (
        "    out.copy_(widen(values) * scale)\n    values.view(torch.uint8).zero_()\n"
    ),
    "needs more": "    out.copy_(widen(values) * scale * surprise)\n",
    "misses a name": "    out.copy_(no_such_function(values) * scale)\n",
}


def kernel(version: str) -> str:
    """Source of ``vllm/toy/scale.py`` in one of the versions above."""
    extra = ", surprise" if version == "needs more" else ""
    return f"{_HEAD}def scale_rows(values, scale, out, backend{extra}):\n{_BODIES[version]}"


BACKENDS = """\
class Base:
    takes_quantised: bool = False


class Quantised(Base):
    def __init__(self):
        self.takes_quantised = True


class Plain(Base):
    pass
"""


def tree(version: str) -> dict[str, str]:
    """All files of a toy vLLM."""
    return {
        "vllm/__init__.py": "",
        "vllm/toy/__init__.py": "",
        "vllm/toy/scale.py": kernel(version),
        "vllm/backends/__init__.py": "",
        "vllm/backends/all.py": BACKENDS,
    }


def write_tree(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=toy", "-c", "user.email=toy@example.invalid", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def repository(folder: Path, versions: Sequence[str]) -> list[str]:
    """A git repository with one commit a version; returns the commits, oldest first."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    commits = []
    for number, version in enumerate(versions):
        write_tree(folder, tree(version))
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "--allow-empty", "-m", f"{version} (#{number + 1})")
        commits.append(git(folder, "rev-parse", "HEAD"))
    return commits
