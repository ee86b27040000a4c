"""Devices that fail, reasons that are the machine's, holes, and issues kept in place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from diffuzz.case import Case, make_case
from diffuzz.nightly import holes, machinery
from diffuzz.nightly.machinery import Device
from tests import toy
from tests.conftest import Command

from .fortnight import SCRIPTS
from .targets.toy_night import TARGET

_HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("reasons", "lost", "failed"),
    [
        ({"worker killed, out of memory perhaps": 3}, 3, None),
        ({"device lost": 1}, 1, None),
        ({"device lost": 2, "missing name": 5}, 2, "device lost"),
        ({"the device cannot be used: hip error": 2}, 2, "the device cannot be used: hip error"),
        ({"new parameter surprise": 9}, 0, None),
    ],
)
def test_what_is_the_machine_s_fault(
    reasons: dict[str, int], lost: int, failed: str | None
) -> None:
    assert machinery.lost(reasons) == lost
    assert machinery.device_failed(reasons) == failed


def test_the_first_device_that_works_from_the_shard_s_own_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = {"1", "2"}

    def probe(number: str) -> Device:
        return Device(number, problem="lost") if number in broken else Device(number, "some GPU")

    monkeypatch.setattr(machinery, "_probe", probe)
    numbers = ["0", "1", "2", "3"]
    device, failed = machinery.choose_device(numbers, shard_index=2)
    assert device == Device("3", "some GPU")
    assert [item.number for item in failed] == ["1", "2"]
    device, failed = machinery.choose_device(numbers, shard_index=5)
    assert (device, failed) == (Device("0", "some GPU"), [])
    broken |= {"0", "3"}
    device, failed = machinery.choose_device(numbers, shard_index=1)
    assert device is None
    assert len(failed) == 4


def test_devices_that_do_not_work_are_named_and_the_night_recovers_nothing(
    diffuzz: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.repository(tmp_path / "repo", ["right"])
    # Whatever the machine has, no process of this test sees a GPU.
    monkeypatch.setattr(machinery, "_PROBE", "raise SystemExit('no such device')")
    done = diffuzz(
        *("nightly", "--repo", "repo", "--state", "state", "--executor", "gpu"),
        *("--target", "toy_night", "--targets", str(_HERE / "targets"), "--devices", "4,5"),
        *("--night", "2026-08-01", "--explore", "0"),
    )
    assert done.returncode == 3
    assert "device 4 is quarantined for the night: no such device" in done.stderr
    assert "quarantined for the night: device 5: no such device" in done.stdout
    assert "NOT DONE: not run: no device passed its probe" in done.stdout


def test_a_device_that_fails_in_the_night_is_quarantined_and_nothing_recovers(
    diffuzz: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.repository(tmp_path / "repo", ["narrow"])
    shutil.copytree(_HERE / "targets", tmp_path / "targets")
    words = ("nightly", "--repo", "repo", "--state", "state", "--target", "toy_night")
    words = (*words, "--targets", "targets", "--explore", "0", "--examples", "8")
    first = diffuzz(*words, "--executor", "cpu", "--night", "2026-08-01")
    assert first.returncode == 1, first.stderr
    state = tmp_path / "state" / "state.json"
    # The same findings as if a GPU had found them; and that GPU is gone tonight.
    state.write_text(state.read_text().replace("gfx950/cpu", "gfx950/gpu"))
    toy.write_tree(tmp_path / "repo", toy.tree("right"))
    toy.git(tmp_path / "repo", "commit", "-qam", "Mended")
    monkeypatch.setattr(machinery, "_probe", lambda number: Device(number, "some GPU"))
    monkeypatch.setattr("diffuzz.devices.choose_executor", lambda wanted: "gpu")
    monkeypatch.setattr("diffuzz.nightly.tonight.device_name", lambda executor: "some GPU")
    for name in machinery.VARIABLES:
        monkeypatch.setenv(name, "0")
    second = diffuzz(*words, "--devices", "3", "--night", "2026-08-02", "--json", "night.json")
    assert second.returncode == 3, second.stdout + second.stderr
    assert "quarantined for the night: device 3 (some GPU)" in second.stdout
    data = json.loads((tmp_path / "night.json").read_text())
    (finding,) = data["findings"].values()
    assert finding["status"] == "not seen because of machinery"
    assert data["fixed"] == []


def test_holes_are_filled_by_what_is_new() -> None:
    pool = [case(rows) for rows in (1, 1, 2, 5, 6)]
    axes = TARGET.axes
    chosen = holes.fill(pool, axes, [], 10)
    assert len(chosen) == 4, "the second of two like cases brings nothing"
    known = holes.covered(chosen, axes)
    assert holes.fill(pool, axes, known, 10) == []
    assert holes.fill(pool, axes, holes.covered(pool[:1], axes), 1)[0] in pool[2:]


def case(rows: int) -> Case:
    return make_case(TARGET.name, TARGET.axes, {"rows": rows})


@pytest.fixture
def track(tmp_path: Path) -> Callable[[], str]:
    tool = tmp_path / "bin" / "gh"
    tool.parent.mkdir()
    shutil.copy(_HERE / "fake_gh.py", tool)
    tool.chmod(0o755)
    (tmp_path / "state" / "issues").mkdir(parents=True)

    def run() -> str:
        done = subprocess.run(
            [sys.executable, str(SCRIPTS / "track_issues.py"), "state", "some/repository"],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_an_issue_is_made_once_edited_in_place_and_opened_only_when_it_came_back(
    track: Callable[[], str], tmp_path: Path
) -> None:
    assert track() == "no drafts\n"
    draft = tmp_path / "state" / "issues" / "toy-crash-1.md"
    mark = "<!-- diffuzz-finding: toy-crash-1 -->"
    draft.write_text(f"# out &#35;&#8203;1 is `wrong`\n\n{mark}\n\n- a\n")
    assert track().startswith("created")
    store = tmp_path / "bin" / "issues.json"
    (issue,) = json.loads(store.read_text())
    assert issue["title"] == "out #1 is `wrong`"
    assert track() == "#1 is up to date\n"
    issue["state"] = "CLOSED"
    store.write_text(json.dumps([issue]))
    draft.write_text(draft.read_text() + "- more\n")
    assert track() == "#1 edited\n", "a closed issue is left closed"
    draft.write_text(draft.read_text() + "- it had been fixed and came back\n")
    assert track() == "#1 edited and opened again\n"
    shutil.rmtree(tmp_path / "state")  # a lost state files nothing twice
    draft.parent.mkdir(parents=True)
    draft.write_text(f"# other title\n\n{mark}\n")
    assert track() == "#1 edited\n"
    assert len(json.loads(store.read_text())) == 1
