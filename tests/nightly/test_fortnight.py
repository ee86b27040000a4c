"""Fourteen nights over a branch with planted changes: what each morning says, and whom it names.

A regression, its fix, a flaky kernel, refactors that change nothing, a revert, a night without a
commit, a night killed halfway, one with a dead worker, and one of two shards.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Command

from .fortnight import Morning, Nights

pytestmark = pytest.mark.slow


@pytest.fixture
def nights(diffuzz: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "cache"))
    return Nights.begin(diffuzz, tmp_path)


def test_a_fortnight(nights: Nights) -> None:
    guilty = {
        *_a_regression_and_its_fix(nights),
        *_a_flaky_kernel(nights),
        *_a_night_killed_and_a_revert(nights),
    }
    assert nights.named == {sha[:10] for sha in guilty}
    assert len(nights.issues) == 3
    titles = {issue["title"] for issue in nights.issues}
    assert len(titles) == 3
    assert not any("&#" in title for title in titles)


def _a_regression_and_its_fix(nights: Nights) -> set[str]:
    branch = nights.branch
    branch.commit("First version (#1)", "right")
    first = nights.night(1)
    assert (first.code, first.new) == (0, [])
    assert "no drafts" in first.filed

    quiet = nights.night(2)  # no commit at all
    assert quiet.code == 0
    assert not quiet.data["shards"]["toy_night 1/1"]["targets"], "nothing had to run"
    assert "1 unchanged since they were judged" in quiet.said

    branch.commit("Words about it (#2)", docs="one")
    narrow = branch.commit("Make it faster (#3)", "narrow")
    branch.commit("Another file (#4)", vllm__other="one")
    third = nights.night(3)
    (key,) = third.new
    assert third.code == 1
    assert third.status == {key: "open"}
    assert third.named(key) == narrow
    assert "vllm.toy.scale.scale_rows" in third.said
    assert third.filed.count("created") == 1

    branch.commit("More words (#5)", docs="two")
    fourth = nights.night(4)
    assert (fourth.code, fourth.new) == (0, [])
    assert fourth.status == {key: "open"}
    assert "is up to date" in fourth.filed

    branch.commit("Words again (#6)", docs="three")
    fix = branch.commit("Keep all bits (#7)", "right, written otherwise")
    fifth = nights.night(5)
    assert fifth.code == 0
    assert fifth.status == {key: "fixed"}
    assert fifth.named(key) == fix
    assert fifth.data["fixed"] == [key]
    assert "edited" in fifth.filed

    branch.commit("Comments only (#8)", docs="four")
    path = branch.folder / "vllm" / "toy" / "scale.py"
    path.write_text(path.read_text().replace("import torch\n", "import torch\n\n# A comment.\n", 1))
    branch._taken("commit", "-q", "-m", "A comment (#9)")
    sixth = nights.night(6)  # a refactor that changes nothing
    assert sixth.code == 0
    assert not sixth.data["shards"]["toy_night 1/1"]["targets"]
    assert sixth.filed == fourth.filed
    return {narrow, fix}


def _a_flaky_kernel(nights: Nights) -> set[str]:
    branch = nights.branch
    flaky = branch.commit("Overlap two things (#10)", "flaky")
    branch.commit("A file (#11)", vllm__more="one")
    seventh = nights.night(7)
    (key,) = seventh.new
    assert seventh.status[key] == "flaky"
    assert seventh.named(key) in (flaky, None)
    assert seventh.filed.count("created") == 1

    branch.commit("Other words for the same (#12)", "flaky too")
    nights.switch("KILL", True)
    eighth = nights.night(8)  # every worker dies
    nights.switch("KILL", False)
    assert eighth.code == 3, "nothing could be tested: neither good news nor bad"
    assert eighth.new == []
    assert eighth.status[key] == "not seen because of machinery"
    assert "worker killed" in eighth.data["findings"][key]["unseen"]
    assert "NOT DONE" in eighth.said
    assert "created" not in eighth.filed

    calm = branch.commit("Wait for it (#13)", "right")
    ninth = nights.night(9)
    assert ninth.status[key] == "fixed"
    assert ninth.named(key) in (calm, None)

    branch.commit("Spelling (#14)", "right, written otherwise")
    tenth = nights.night(10)
    assert (tenth.code, tenth.new) == (0, [])
    assert set(tenth.status.values()) == {"fixed"}
    return {sha for sha in (flaky, calm) if sha[:10] in nights.named}


def _a_night_killed_and_a_revert(nights: Nights) -> set[str]:
    branch = nights.branch
    wrong = branch.commit("Drop a factor (#15)", "narrow")
    branch.commit("A file again (#16)", vllm__more="two")
    before = _files(nights.folder / "state" / "issues")
    _kill_halfway(nights, 11)
    assert _files(nights.folder / "state" / "issues") == before

    twelfth = nights.night(12)  # no commit since: the killed night's work is done now
    assert "night 2026-08-11, shard toy_night 1/1, did not end" in twelfth.said
    (key,) = twelfth.new
    assert twelfth.data["findings"][key]["returned"]
    assert twelfth.named(key) == wrong
    assert "created" not in twelfth.filed, "it is the first night's finding come back"
    assert nights.issues[0]["body"].count("came back") == 1

    undo = branch.revert(wrong)
    thirteenth = nights.night(13)
    assert thirteenth.status[key] == "fixed"
    assert thirteenth.named(key) == undo
    assert not thirteenth.data["shards"]["toy_night 1/1"]["targets"], "this code was judged before"

    loses = branch.commit("Simplify (#17)", "writes nothing")
    branch.commit("Last words (#18)", docs="five")
    fourteenth = _two_shards(nights, 14)
    assert fourteenth.code == 1
    (key,) = fourteenth.new
    assert fourteenth.named(key) == loses
    assert set(fourteenth.data["shards"]) == {"toy_night 1/2", "toy_night 2/2"}
    return {wrong, undo, loses}


def test_two_shards_at_once_on_one_folder(nights: Nights) -> None:
    nights.branch.commit("First version (#1)", "right")
    nights.night(1)
    wrong = nights.branch.commit("Make it faster (#2)", "narrow")
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "diffuzz", *nights.words(2, "state", "--shard", f"{shard}/2")],
            cwd=nights.folder,
            stdout=subprocess.DEVNULL,
        )
        for shard in (1, 2)
    ]
    assert all(process.wait() in (0, 1) for process in running)
    morning = nights.merge(2, "state")
    assert set(morning.data["shards"]) == {"toy_night 1/2", "toy_night 2/2"}
    (key,) = morning.new
    assert morning.named(key) == wrong
    assert nights.named == {wrong[:10]}
    assert len(nights.issues) == 1


def test_what_is_left_of_a_quiet_night_goes_to_cases_nobody_had(nights: Nights) -> None:
    nights.branch.commit("First version (#1)", "right")
    out_of_time = nights.night(1, "--budget", "0s")
    assert out_of_time.code == 3
    assert "NOT DONE: not run: the budget is used up" in out_of_time.said
    nights.night(2)
    state = nights.folder / "state" / "state.json"
    unit = "toy_night/gfx950/cpu"
    before = json.loads(state.read_text())["units"][unit]["covered"]
    third = nights.night(3, "--explore", "6")
    ran = [
        (item["what"], item["text"]) for item in third.data["shards"]["toy_night 1/1"]["account"]
    ]
    (holes,) = [text for what, text in ran if what == "holes in the case space"]
    rest = [text for what, text in ran if what == "random cases"]
    total = sum(int(text.split()[0]) for text in [holes, *rest])
    assert total == 6
    after = json.loads(state.read_text())["units"][unit]["covered"]
    assert set(before) < set(after)


def _kill_halfway(nights: Nights, night: int) -> None:
    """A real process, killed with all it started while a case runs."""
    nights.switch("PAUSE", True)
    process = subprocess.Popen(
        [sys.executable, "-m", "diffuzz", *nights.words(night)],
        cwd=nights.folder,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    paused = nights.folder / "targets" / "PAUSED"
    while not paused.exists():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    nights.switch("PAUSE", False)


def _two_shards(nights: Nights, night: int) -> Morning:
    """Each shard on a copy of the state; merged in both orders, and once more."""
    for shard in (1, 2):
        shutil.copytree(nights.folder / "state", nights.folder / f"part{shard}")
        done = nights.diffuzz(*nights.words(night, f"part{shard}", "--shard", f"{shard}/2"))
        assert done.returncode in (0, 1), done.stderr
    shutil.copytree(nights.folder / "state", nights.folder / "half")
    nights.diffuzz("nightly", "--merge", "--state", "half", "part1", "gone")
    assert "shard toy_night 2/2: no result" in (nights.folder / "half" / "report.md").read_text()
    texts = set()
    for order in (("part1", "part2"), ("part2", "part1")):
        into = f"merged-{order[0]}"
        shutil.copytree(nights.folder / "state", nights.folder / into)
        nights.diffuzz("nightly", "--merge", "--state", into, *order)
        nights.diffuzz("nightly", "--merge", "--state", into, *order)
        folder = nights.folder / into
        texts.add((folder / "state.json").read_text() + _files(folder / "issues").__repr__())
    assert len(texts) == 1
    return nights.merge(night, "state", "part1", "part2")


def _files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("*"))}
