"""The two mission findings, from real releases: their minimal cases, and reproducers of them.

Where the index cannot be reached these fail in CI and are skipped with a loud reason elsewhere.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from diffuzz import corpus, discovery
from diffuzz.campaign import Runner, run_cases
from diffuzz.casefile import CaseFile, write_case_file
from diffuzz.folding import Fold
from diffuzz.generate import draw_cases
from diffuzz.minimise import minimise
from diffuzz.planning import plan
from diffuzz.sources.revision import open_revision
from tests.network import index_needed

from ..conftest import Command

pytestmark = [pytest.mark.network, pytest.mark.slow]

MISSION = [
    ("rocm_gather", "gfx950", "pypi:0.19.1", "pypi:0.20.0"),
    ("k3_decode", "sm90", "pypi:0.27.1", "pypi:0.28.0"),
]


@pytest.fixture(scope="module", autouse=True)
def releases() -> None:
    with index_needed():
        for *_, bad, good in MISSION:
            open_revision(bad, None)
            open_revision(good, None)


def known_case(target: str) -> CaseFile:
    """The corpus's entry of the mission finding."""
    entries = corpus.load(corpus.own_folder(), discovery.load(target))
    (entry,) = [entry for entry in entries if entry.signature]
    return entry.file


@pytest.mark.parametrize(("target", "arch", "bad", "good"), MISSION)
@pytest.mark.parametrize("seed", [0, 5])
def test_every_run_shrinks_to_the_corpus_case(
    tmp_path: Path, target: str, arch: str, bad: str, good: str, seed: int
) -> None:
    (job,) = plan(open_revision(bad), open_revision(good), (target,), (arch,), "cpu").jobs
    with Runner(job, tmp_path, lanes=1, time_limit=120) as runner:
        fold = Fold(job)
        for result in run_cases(runner, draw_cases(job.target, count=30, seed=seed), 1):
            fold.add(result)
        wanted = known_case(target)
        (finding,) = [
            found
            for found in fold.finish().findings
            if corpus.stored_signature(found.defect.signature) == wanted.signature
        ]
        least = minimise(finding.case, finding.defect.signature, finding.direction, runner)
    assert not least.exhausted
    assert least.case == wanted.case(job.target.axes)


@pytest.mark.parametrize(("target", "arch", "bad", "good"), MISSION)
def test_reproducers_fail_on_the_bad_and_pass_on_the_good(
    diffuzz: Command, tmp_path: Path, target: str, arch: str, bad: str, good: str
) -> None:
    file = replace(known_case(target), baseline=good, candidate=bad, direction="regression")
    write_case_file(tmp_path / "finding.yaml", file)
    for revision, wanted in ((bad, 1), (good, 0)):
        made = diffuzz(
            *("reproducer", "finding.yaml", "--revision", revision, "--arch", arch),
            *("--out", "reproducer.py"),
        )
        assert made.returncode == 0, made.stderr
        assert "where diffuzz says" not in made.stdout
        command = [sys.executable, str(tmp_path / "reproducer.py"), "--device", "cpu"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == wanted, done.stdout + done.stderr
