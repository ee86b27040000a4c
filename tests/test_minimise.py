"""Shrinking findings with real workers, on the toy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from diffuzz.campaign import Job, Runner, run_cases
from diffuzz.case import Case, make_case, sort_key
from diffuzz.casefile import read_case_file
from diffuzz.errors import UsageError
from diffuzz.finding import Direction, Finding
from diffuzz.folding import Fold
from diffuzz.generate import draw_cases
from diffuzz.minimise import Minimised, minimise, minimise_finding, summary
from diffuzz.planning import plan
from diffuzz.sources.revision import open_revision

from . import toy
from .conftest import Command

_UNSTEADY = """\
import torch

from vllm.platforms import current_platform

calls = [0]


def scale_rows(values, scale, out, backend):
    calls[0] += 1
    out.copy_(values.to(torch.float32) * scale)
    if calls[0] % 4:
        raise ValueError("three times in four")
"""


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    for version in ("right", "narrow", "asserts", "forgets the scale", "writes nothing"):
        toy.write_tree(folder / version.replace(" ", "-"), toy.tree(version))
    unsteady = {**toy.tree("right"), "vllm/toy/scale.py": _UNSTEADY}
    toy.write_tree(folder / "unsteady", unsteady)
    return folder


def job_of(trees: Path, baseline: str, candidate: str) -> Job:
    before, after = (open_revision(f"path:{trees / name}") for name in (baseline, candidate))
    (job,) = plan(before, after, ("toy_scale",), (), "cpu", (toy.TARGETS,)).jobs
    return job


@contextmanager
def running(job: Job, folder: Path, lanes: int = 1) -> Iterator[Runner]:
    with Runner(job, folder, lanes=lanes, time_limit=60) as runner:
        yield runner


def findings(runner: Runner, seed: int) -> list[Finding]:
    fold = Fold(runner.job)
    cases = draw_cases(runner.job.target, count=12, seed=seed)
    for result in run_cases(runner, cases, 1):
        fold.add(result)
    return fold.finish().findings


def shrunk(finding: Finding, runner: Runner, **more: int) -> Minimised:
    return minimise(finding.case, finding.defect.signature, finding.direction, runner, **more)


def moved(case: Case, job: Job) -> dict[str, object]:
    return {a.name: case[a.name] for a in job.target.axes if case[a.name] != a.default}


@pytest.mark.parametrize(
    ("candidate", "signature", "seeds"),
    [
        pytest.param("narrow", "precision:through-e4m3", 10, marks=pytest.mark.slow),
        ("forgets-the-scale", "wrong-result:scale-missing", 4),
        ("writes-nothing", "wrong-result:unwritten", 2),
    ],
)
def test_all_seeds_end_at_one_case(
    trees: Path, tmp_path: Path, candidate: str, signature: str, seeds: int
) -> None:
    job = job_of(trees, "right", candidate)
    ends = {}
    with running(job, tmp_path) as runner:
        for seed in range(seeds):
            found = {f.defect.signature: f for f in findings(runner, seed)}
            assert signature in found, list(found)
            least = shrunk(found[signature], runner)
            assert not least.exhausted
            assert sort_key(least.case, job.target.axes) <= sort_key(
                found[signature].case, job.target.axes
            )
            ends[least.case.id] = least
    assert len(ends) == 1, [summary(e.case, e, job) for e in ends.values()]
    (least,) = ends.values()
    assert (least.case["mode"], least.case["takes_quantised"]) == ("plain", False)
    assert len(moved(least.case, job)) <= 1
    assert least.defect.explanation is None or least.defect.explanation.certain


def test_an_assertion_shrinks_to_the_plainest_case(trees: Path, tmp_path: Path) -> None:
    job = job_of(trees, "asserts", "right")
    case = make_case(
        "toy_scale", job.target.axes, {"mode": "odd", "rows": 17, "scale": 0.037}, seed=77
    )
    with running(job, tmp_path) as runner:
        (finding,) = findings(runner, 0)
        least = minimise(case, finding.defect.signature, Direction.FIXED, runner)
    assert moved(least.case, job) == {}
    assert least.case.seed == 0
    assert least.tried < 40


def test_neither_lanes_nor_speed_change_the_result(trees: Path, tmp_path: Path) -> None:
    job = job_of(trees, "right", "narrow")
    with running(job, tmp_path / "one") as runner:
        (finding,) = findings(runner, 3)
        one = shrunk(finding, runner)
    with running(job, tmp_path / "two", lanes=2) as runner:
        two = shrunk(finding, runner, lanes=2)
    assert (one.case, one.tried, one.defect.signature) == (
        two.case,
        two.tried,
        two.defect.signature,
    )


def test_no_time_keeps_the_case_and_says_so(trees: Path, tmp_path: Path) -> None:
    job = job_of(trees, "right", "narrow")
    with running(job, tmp_path) as runner:
        (finding,) = findings(runner, 1)
        least = shrunk(finding, runner, seconds=0)
        assert (least.case, least.exhausted) == (finding.case, True)
        assert any("time was up" in line for line in summary(finding.case, least, job))
        kept = minimise_finding(finding, runner, seconds=0)
    assert kept.extra["shrunk"] == {"tried": 0, "complete": False}


def test_an_unsteady_failure_keeps_its_rate(trees: Path, tmp_path: Path) -> None:
    job = job_of(trees, "right", "unsteady")
    case = make_case("toy_scale", job.target.axes, {"mode": "odd", "rows": 7}, seed=5)
    with running(job, tmp_path) as runner:
        signature = "crash:run:scale_rows:ValueError:three times in four"
        least = minimise(case, signature, Direction.REGRESSION, runner, repeats=8)
    assert moved(least.case, job) == {}
    assert least.rates is not None
    assert (least.rates.runs, least.rates.before, least.rates.after) == (8, 6, 6)


def test_a_case_that_is_right_cannot_shrink(trees: Path, tmp_path: Path) -> None:
    job = job_of(trees, "right", "narrow")
    case = make_case("toy_scale", job.target.axes, {"rows": 3})  # scale 1: nothing to lose
    with running(job, tmp_path) as runner:
        with pytest.raises(UsageError, match="does not show"):
            minimise(case, "precision:through-e4m3", Direction.REGRESSION, runner)
        (finding,) = findings(runner, 0)
        with pytest.raises(UsageError, match="does not show"):
            minimise(finding.case, finding.defect.signature, Direction.FIXED, runner)


def test_a_finding_keeps_its_identity(trees: Path, tmp_path: Path) -> None:
    job = job_of(trees, "right", "narrow")
    with running(job, tmp_path) as runner:
        (finding,) = findings(runner, 2)
        least = minimise_finding(finding, runner)
    assert (least.id, least.direction, least.cases_hit) == (
        finding.id,
        finding.direction,
        finding.cases_hit,
    )
    assert least.case != finding.case
    assert least.extra["shrunk"]["complete"] is True
    assert least.candidate_measure is not None
    assert least.candidate_measure.wrong > 0
    assert least.defect.message != finding.defect.message


def test_a_mistake_without_a_name_does_not_shrink_into_another(trees: Path, tmp_path: Path) -> None:
    """With few wrong elements everything looks alike: a nameless mistake keeps enough of them."""
    job = job_of(trees, "right", "narrow")
    with running(job, tmp_path) as runner:
        (finding,) = findings(runner, 2)
        with pytest.raises(UsageError, match="does not show"):
            minimise(finding.case, "precision:out:values", finding.direction, runner)


def test_the_command(diffuzz: Command, trees: Path, tmp_path: Path) -> None:
    names = ("--targets", toy.TARGETS)
    sides = ("--baseline", f"path:{trees / 'right'}", "--candidate", f"path:{trees / 'narrow'}")
    assert (
        diffuzz("run", "toy_scale", *names, *sides, "--examples", "12", "--out", "r").returncode
        == 1
    )
    (path,) = (tmp_path / "r" / "findings").glob("*.yaml")

    done = diffuzz("shrink", str(path), *names)
    assert done.returncode == 0, done.stderr
    least = path.with_suffix(".min.yaml")
    assert [line.split()[0] for line in done.stdout.splitlines()[:2]] == ["before", "after"]
    assert str(least) in done.stdout
    again = diffuzz("replay", str(least), *names, "--revision", f"path:{trees / 'narrow'}")
    assert again.returncode == 1

    assert diffuzz("shrink", str(path), *names, "--in-place").returncode == 0
    assert read_case_file(path).values == read_case_file(least).values
    fixed = diffuzz("shrink", str(path), *names, "--candidate", f"path:{trees / 'right'}")
    assert fixed.returncode == 2
    assert "does not show" in fixed.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target: toy_scale\nvalues: {}\n", "c.yaml: signature and direction"),
        (
            "target: toy_scale\nsignature: a:b:c\ndirection: fixed\nvalues: {}\n",
            "c.yaml: names no two revisions; give --baseline and --candidate",
        ),
        ("target: toy_scale\nvalues:\n  mode: [\n", "c.yaml:4: "),
    ],
)
def test_bad_files_are_one_clear_line(
    diffuzz: Command, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "c.yaml").write_text(text)
    done = diffuzz("shrink", "c.yaml", "--targets", toy.TARGETS)
    assert done.returncode == 2
    assert done.stderr.startswith(f"diffuzz: {said}")
    assert len(done.stderr.splitlines()) == 1
