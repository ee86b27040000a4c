"""Real code: a repository assembled from release archives, one commit a release, and the releases
themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.version import Version

from diffuzz.casefile import CaseFile, write_case_file
from diffuzz.sources.archive import Releases

from .. import toy
from ..conftest import Command
from .conftest import NARROW

pytestmark = [pytest.mark.network, pytest.mark.slow]

RELEASES = ("0.19.1", "0.20.0", "0.27.1")
FOLDERS = ("vllm/v1/attention/", "vllm/utils/", "vllm/platforms/")
VALUES = {"op": "gather", "layout": "NHD", "cache": "fp8", "seq_lens": [3], "v_scale": 0.037}


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own cache: releases are large."""
    monkeypatch.delenv("DIFFUZZ_CACHE", raising=False)


@pytest.fixture
def finding(tmp_path: Path) -> str:
    path = tmp_path / "finding.yaml"
    file = CaseFile(
        str(path),
        target="rocm_gather",
        seed=0,
        values=VALUES,
        arch="gfx950",
        kind="precision",
        signature=NARROW,
    )
    write_case_file(path, file)
    return str(path)


def assemble(folder: Path) -> dict[str, str]:
    """A repository with one commit a release; the commits by version."""
    folder.mkdir()
    toy.git(folder, "init", "-q", "-b", "main")
    commits = {}
    for version in RELEASES:
        toy.git(folder, "rm", "-r", "-q", "--ignore-unmatch", ".")
        source = Releases().source(Version(version))
        names = [n for n in source.list("vllm") if n.startswith(FOLDERS) or n.count("/") == 1]
        toy.write_tree(folder, {n: source.read(n) or "" for n in names if n.endswith(".py")})
        toy.git(folder, "add", "-A")
        toy.git(folder, "commit", "-q", "-m", f"release {version}")
        commits[version] = toy.git(folder, "rev-parse", "HEAD")
        toy.git(folder, "tag", f"v{version}")
    return commits


def test_a_repository_of_releases(diffuzz: Command, tmp_path: Path, finding: str) -> None:
    commits = assemble(tmp_path / "assembled")
    done = diffuzz(
        *("bisect", finding, "--good", "pypi:0.27.1", "--bad", "pypi:0.19.1"),
        *("--repo", str(tmp_path / "assembled"), "--json", "out.json"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["direction"] == "fixed"
    assert found["culprit"]["commit"] == commits["0.20.0"]
    assert "cp_mha_gather_cache_kernel" in " ".join(found["blame"]["carriers"])


def test_between_releases_the_answer_is_a_range(
    diffuzz: Command, tmp_path: Path, finding: str
) -> None:
    done = diffuzz(
        *("bisect", finding, "--good", "pypi:0.20.0", "--bad", "pypi:0.19.1"),
        *("--json", "out.json"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["culprit"] is None
    assert (found["range"]["good"], found["range"]["bad"]) == ("pypi:0.20.0", "pypi:0.19.1")
    assert "between releases" in done.stdout
