"""Workers: what each way of ending looks like to the parent, with real processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from diffuzz import discovery
from diffuzz.arch import get_arch
from diffuzz.case import make_case
from diffuzz.executors.native_ops import NativeOps
from diffuzz.executors.pool import Worker, write_request
from diffuzz.executors.worker import Setup
from diffuzz.outcome import Crashed, Raised, Returned, TimedOut, Unsupported
from diffuzz.slicing import Slice, slice_target
from diffuzz.sources.directory import DirectorySource

from . import toy

TARGET = discovery.load("toy_scale", (toy.TARGETS,))
CASE = make_case("toy_scale", TARGET.axes, {"rows": 3, "scale": 3.0})


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., tuple[Worker, Path]]:
    def make(version: str, time_limit: float = 60.0) -> tuple[Worker, Path]:
        tree = toy.write_tree(tmp_path / "tree", toy.tree(version))
        piece = slice_target(
            DirectorySource(tree), "toy_scale", TARGET.entries, TARGET.stand_ins(get_arch("gfx950"))
        )
        assert isinstance(piece, Slice), piece
        piece.write(tmp_path / "slice")
        setup = Setup(
            slice_dir=str(tmp_path / "slice"),
            target="toy_scale",
            target_folders=(toy.TARGETS,),
            arch="gfx950",
            executor="cpu",
            native=NativeOps().to_dict(),
            log=str(tmp_path / "worker.log"),
            memory_limit=0,
        )
        return Worker(setup, time_limit), write_request(tmp_path / "cases", CASE)

    return make


def test_outputs_come_back_and_the_worker_is_kept(
    start: Callable[..., tuple[Worker, Path]],
) -> None:
    worker, request = start("right")
    with worker:
        first, second = worker.run(request), worker.run(request)
    assert isinstance(first, Returned)
    assert isinstance(second, Returned)
    assert first.outputs["out"].equal(second.outputs["out"])
    assert first.outputs["out"].shape == (3, 32)
    assert first.reports == ()
    assert worker.restarts == 0


def test_an_assertion_carries_vllms_own_line(start: Callable[..., tuple[Worker, Path]]) -> None:
    worker, request = start("asserts")
    with worker:
        outcome = worker.run(request)
    assert isinstance(outcome, Raised)
    assert outcome.is_assertion
    assert outcome.message == "this toy wants a quantised query"
    assert outcome.location is not None
    line = toy.kernel("asserts").splitlines()[outcome.location.line - 1]
    assert (outcome.location.file, line.strip()) == ("vllm/toy/scale.py", outcome.source_line)


def test_a_death_is_tried_twice_and_then_a_crash(
    start: Callable[..., tuple[Worker, Path]],
) -> None:
    worker, request = start("dies")
    with worker:
        outcome = worker.run(request)
        assert isinstance(outcome, Crashed)
        assert outcome.how == "signal SIGABRT"
        assert worker.restarts == 1
        assert isinstance(worker.run(request), Crashed), "the worker is replaced for the next case"


def test_a_hang_is_ended_at_the_limit(start: Callable[..., tuple[Worker, Path]]) -> None:
    worker, request = start("hangs", time_limit=1.0)
    with worker:
        assert worker.run(request) == TimedOut(1.0)


def test_a_changed_input_is_reported(start: Callable[..., tuple[Worker, Path]]) -> None:
    worker, request = start("changes its input")
    with worker:
        outcome = worker.run(request)
    assert isinstance(outcome, Returned)
    assert [(r.kind, r.argument) for r in outcome.reports] == [("wrong-result", "codes")]


def test_a_parameter_nobody_knows_is_unsupported(
    start: Callable[..., tuple[Worker, Path]],
) -> None:
    worker, request = start("needs more")
    with worker:
        assert worker.run(request) == Unsupported("new parameter surprise")


def test_the_request_is_on_disk_before_the_run(tmp_path: Path) -> None:
    path = write_request(tmp_path / "deep" / "down", CASE)
    assert path.name == f"{CASE.id}.json"
    assert "toy_scale" in path.read_text()
