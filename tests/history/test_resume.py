"""A bisect killed at any point goes on where it was, to the same answer; what is remembered is
safe to delete and never taken for more than it is."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from diffuzz.bisect.data import bisected
from diffuzz.bisect.finding import search_row
from diffuzz.bisect.log import Observation, ObservationLog, open_log
from diffuzz.bisect.question import Question
from diffuzz.bisect.row import open_row
from diffuzz.case import Case, make_case
from diffuzz.finding import Defect, Judged, Kind, Measure
from diffuzz.planning import Piece
from diffuzz.verdicts import Judge, from_data, to_data

from .. import toy
from .conftest import ARCH, NARROW, TARGET, VALUES, Past, WriteFinding

DEFECT = Defect(
    Kind.PRECISION, "out", "precision:out:through-e4m3", "narrow", Measure(max_ulp=float("inf"))
)
CASE = make_case("toy_scale", TARGET.axes, VALUES)


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


class Mortal(Judge):
    """A judge that reads the slice's text instead of running it, and dies after ``lives`` runs."""

    lives = 1 << 30
    unsteady: random.Random | None = None

    def run(self, piece: Piece, case: Case, *, fresh: bool = False) -> Judged:
        if self.lives == 0:
            raise Killed
        self.lives -= 1
        self.runs += 1
        bad = any("to(values.dtype)" in text for text in piece.slice.files.values())
        if self.unsteady is not None and self.unsteady.random() < 0.5:
            bad = False
        return Judged(defects=(DEFECT,)) if bad else Judged(right=frozenset({"out"}))


@pytest.fixture
def zigzag(past: Past) -> Past:
    for number in range(12):
        past.version(("right", "right, written otherwise", "misses a name")[number % 3])
    for number in range(8):
        text = toy.kernel("narrow") + f"    {number}\n" + f"    out.add_({number} * 0)\n"
        past.commit(f"narrow {number} (#{number})", {"vllm/toy/scale.py": text})
    return past


def answer(past: Past, lives: int = 1 << 30, seed: int | None = None) -> tuple[Any, int]:
    """The bisect's data and how many runs it took, or None if it was killed."""
    first = toy.git(past.folder, "rev-list", "--max-parents=0", "main")
    row = open_row(first, "main", TARGET, ARCH, str(past.folder))
    with Mortal(TARGET, ARCH, "cpu", remember=False) as judge:
        judge.lives = lives
        judge.unsteady = None if seed is None else random.Random(seed)
        try:
            found = search_row(row, Question(CASE, NARROW), judge)
        except Killed:
            return None, judge.runs
        return bisected(found), judge.runs


def logs(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "bisect").glob("*.jsonl"))


def test_fifty_kills_at_random_moments_change_nothing(zigzag: Past, tmp_path: Path) -> None:
    whole, runs = answer(zigzag)
    assert whole["range"] is not None  # what cannot be told lies beside the change
    assert whole["range"]["untested"][0]["reason"].startswith("missing")
    rng = random.Random(0)
    kills = 0
    while kills < 50:
        shutil.rmtree(tmp_path / "cache" / "bisect")
        done = 0
        found = None
        while found is None:
            found, used = answer(zigzag, lives=rng.randrange(0, 6))
            done += used
            kills += found is None
        assert found == whole
        assert done == runs  # nothing is run twice, nothing is left out


def test_an_unsteady_search_goes_on_after_a_kill(zigzag: Past, tmp_path: Path) -> None:
    found = None
    seed = 0
    while found is None:
        found, _ = answer(zigzag, lives=7, seed=seed)
        seed += 1
    assert seed > 2
    again, runs = answer(zigzag)
    assert runs == 0
    assert again == found
    assert found["transitions"]


def test_a_log_that_is_cut_off_or_damaged_costs_a_run_and_no_more(
    zigzag: Past, tmp_path: Path
) -> None:
    whole, _ = answer(zigzag)
    (path,) = logs(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    found, runs = answer(zigzag)
    assert (found, runs) == (whole, 1)
    path.write_bytes(b"{}\nnot json\n" + content)
    found, runs = answer(zigzag)
    assert (found, runs) == (whole, 0)
    path.write_bytes(os.urandom(2000))
    found, _ = answer(zigzag)
    assert found == whole


def test_another_case_or_history_has_a_log_of_its_own(zigzag: Past, tmp_path: Path) -> None:
    answer(zigzag)
    zigzag.commit("yet another", {"vllm/toy/scale.py": toy.kernel("narrow") + "    out.add_(0)\n"})
    answer(zigzag)
    assert len(logs(tmp_path)) == 2


def test_the_last_check_counts_before_what_was_seen_first(tmp_path: Path) -> None:
    with open_log({"a": 1}) as log:
        good, bad = Judged(right=frozenset({"out"})), Judged(defects=(DEFECT,))
        log.add(Observation("x", good))
        log.add(Observation("x", bad, turn=True))
        path = log.path
    read = ObservationLog(path)
    assert [bool(judged.defects) for judged in read.of("x")] == [True, False]
    with open_log({"a": 1}, fresh=True) as log:
        assert log.observations == []


def test_a_verdict_is_kept_whole() -> None:
    judged = Judged(
        right=frozenset({"run"}),
        defects=(DEFECT,),
        measures={"out": Measure(max_ulp=float("inf"), wrong=3, total=9, first=(0, 1))},
    )
    assert from_data(json.loads(json.dumps(to_data(judged)))) == judged


def test_verdicts_are_shared_and_safe_to_delete(past: Past, tmp_path: Path) -> None:
    past.version("right")
    row = open_row("main", "main", TARGET, ARCH, str(past.folder))
    piece = row.history.variants[0].cut
    assert isinstance(piece, Piece)

    def judged() -> tuple[int, int]:
        with Judge(TARGET, ARCH, "cpu", (toy.TARGETS,)) as judge:
            assert judge.judge(piece, CASE).unknown is None
            return judge.runs, judge.recalled

    assert judged() == (1, 0)
    assert judged() == (0, 1)
    for path in (tmp_path / "cache" / "verdicts").rglob("*.json"):
        path.write_text("damaged")
    assert judged() == (1, 0)
    shutil.rmtree(tmp_path / "cache")
    assert judged() == (1, 0)


@pytest.mark.slow
def test_real_kills(past: Past, finding: WriteFinding, tmp_path: Path) -> None:
    """SIGKILL and Ctrl-C of the command itself, at random moments."""
    good = past.version("right")
    for number in range(3):
        text = toy.kernel("right") + f"    {number}\n" + f"    out.add_({number} * 0)\n"
        past.commit(f"{number}", {"vllm/toy/scale.py": text})
    culprit = past.version("narrow")
    words = [
        *("bisect", finding(), "--good", good, "--bad", "main", "--repo", str(past.folder)),
        *("--targets", toy.TARGETS, "--json", str(tmp_path / "out.json")),
    ]
    rng = random.Random(1)
    for attempt in range(6):
        process = subprocess.Popen([sys.executable, "-m", "diffuzz", *words], cwd=tmp_path)
        if attempt < 5:
            time.sleep(rng.uniform(1.0, 12.0))
            process.send_signal(rng.choice((signal.SIGKILL, signal.SIGINT)))
        process.wait(timeout=300)
    assert process.returncode == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["culprit"]["commit"] == culprit


@pytest.mark.slow
def test_replay_works_under_git_bisect_run(
    past: Past, finding: WriteFinding, tmp_path: Path
) -> None:
    good = past.version("right")
    past.version("misses a name")
    past.version("right, written otherwise")
    culprit = past.version("narrow")
    past.noise()
    toy.git(past.folder, "bisect", "start", "main", good)
    done = subprocess.run(
        [
            *("git", "bisect", "run", sys.executable, "-m", "diffuzz"),
            *("replay", finding(), "--revision", ".", "--targets", toy.TARGETS),
        ],
        cwd=past.folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert f"{culprit} is the first bad commit" in done.stdout, done.stdout + done.stderr
