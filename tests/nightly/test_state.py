"""The state on disk: damage, two writers, lost parts; and choosing what to compare with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from diffuzz.nightly.state import StateFolder, load
from diffuzz.nightly.units import Shard, baseline, is_good, is_judged
from diffuzz.sources.repository import Repository
from tests import toy
from tests.conftest import Command

_WRITER = """
import sys
from pathlib import Path
from diffuzz.nightly.state import StateFolder
for number in range(20):
    state = StateFolder.open(Path(sys.argv[1]))
    state.unit(f"{sys.argv[2]}-{number}")["covered"].append("x")
    state.save()
"""


def entry(**more: Any) -> dict[str, Any]:
    return {"at": "2026-08-01T00:00:00", "step": 1, "finished": True, **more}


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _WRITER, str(tmp_path / "state")]
    writers = [subprocess.Popen([*words, name]) for name in ("one", "two")]
    assert [writer.wait() for writer in writers] == [0, 0]
    units = load(tmp_path / "state" / "state.json")["units"]
    assert len(units) == 40


@pytest.mark.parametrize("damage", ["{", "[]", '{"schema": 2}', '{"schema": 1}', ""])
def test_a_damaged_state_is_set_aside_and_the_one_before_taken(tmp_path: Path, damage: str) -> None:
    state = StateFolder.open(tmp_path)
    state.data["nights"]["2026-08-01"] = {"1/1": entry()}
    state.save()
    StateFolder.open(tmp_path)  # the next night begins: this is the state before it
    (tmp_path / "state.json").write_text(damage)
    again = StateFolder.open(tmp_path)
    assert again.data["nights"]
    assert (tmp_path / "state.damaged.json").read_text() == damage
    assert "set aside" in again.notes[0]
    again.save()
    assert load(tmp_path / "state.json")["nights"]


def test_without_any_readable_state_the_night_says_so(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("no")
    state = StateFolder.open(tmp_path)
    assert state.data["nights"] == {}
    assert "starts from nothing" in state.notes[1]


def test_merging_names_what_is_lost(diffuzz: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "state.json").write_text("{")
    done = diffuzz("nightly", "--state", "state", "--merge", "gone", "empty", "torn")
    assert done.returncode == 2
    assert done.stderr.count("so its results are lost") == 3
    assert "there is no night in it" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shard", "0/2"), "--shard 0/2"),
        (("--shard", "3/2"), "--shard 3/2"),
        (("--night", "today"), "--night today"),
        (("--target", "nosuch"), "unknown target 'nosuch'"),
        (("--repo", "nowhere"), "nowhere"),
        (("folder",), "only with --merge"),
        (("--devices", "a,b", "--executor", "gpu"), "--devices 'a,b'"),
        (("--state", "file/state"), "--state file/state"),
    ],
)
def test_bad_usage_is_one_line(
    diffuzz: Command, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file").write_text("")
    toy.repository(tmp_path / "repo", ["right"])
    common = () if "--repo" in words else ("--repo", "repo")
    done = diffuzz("nightly", "--state", "state", *common, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def judged(*shards: str, done: bool = True) -> dict[str, Any]:
    how = {"done": done, "cases": 9, "untestable": None, "judge": "j"}
    return {"judged": {"aa": dict.fromkeys(shards, how)}, "seen": {}, "covered": []}


def test_code_is_judged_once_all_shards_of_a_division_ran_it() -> None:
    assert is_judged(judged("1/1"), "aa")
    assert is_judged(judged("1/2", "2/2"), "aa")
    assert not is_judged(judged("1/2", "2/3", "3/3"), "aa")
    assert is_judged(judged("1/2"), "aa", Shard(1, 2))
    assert not is_judged(judged("1/2"), "aa", Shard(2, 2))
    assert not is_judged(judged("1/1", done=False), "aa")
    assert is_judged(judged("1/1"), "aa", judge="j")
    assert not is_judged(judged("1/1"), "aa", judge="a newer diffuzz")
    assert not is_good(judged(), "aa", [], "2026-08-02")


def test_every_piece_of_work_belongs_to_one_shard() -> None:
    for key in ("a", "toy-crash-01234567", "0f3a"):
        assert sum(Shard(i, 3).owns(key) for i in (1, 2, 3)) == 1


def test_what_a_rewritten_branch_is_compared_with(tmp_path: Path) -> None:
    first, second, third = toy.repository(tmp_path / "repo", ["right", "right", "narrow"])
    toy.git(tmp_path / "repo", "checkout", "-q", "-B", "main", first)
    toy.git(tmp_path / "repo", "commit", "-q", "--allow-empty", "-m", "instead")
    unit = judged("1/1")
    unit["seen"]["aa"] = {"commit": second, "date": "2026-08-01", "night": "2026-08-01"}
    with Repository.open(str(tmp_path / "repo")) as repository:
        head = repository.commit("main")
        found = baseline(unit, [], repository, head, None, "2026-08-02")
        assert found is not None
        assert found.commit.sha == first
        assert "was rewritten" in found.note
        on_its_line = baseline(unit, [], repository, repository.commit(third), None, "2026-08-02")
        assert on_its_line is not None
        assert (on_its_line.commit.sha, on_its_line.note) == (second, "")
        unit["seen"]["aa"]["commit"] = "0" * 40  # not even in the repository any more
        gone = baseline(unit, [], repository, head, None, "2026-08-02")
        assert gone is not None
        assert (gone.commit.sha, "was rewritten" in gone.note) == (head.sha, True)
        assert baseline(judged(), [], repository, head, None, "2026-08-02") is None


def test_a_state_is_plain_json(tmp_path: Path) -> None:
    state = StateFolder.open(tmp_path)
    state.save()
    assert json.loads((tmp_path / "state.json").read_text())["schema"] == 1
