"""``diffuzz run`` and ``diffuzz replay`` as a user meets them: real processes, real git, toys."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from diffuzz import discovery
from diffuzz.generate import draw_cases
from diffuzz.sanitizing import distinct

from . import toy
from .conftest import Command

VERSIONS = (
    "right",
    "narrow",
    "asserts",
    "forgets the scale",
    "writes nothing",
    "dies",
    "raises",
    "changes its input",
    "needs more",
    "misses a name",
    "right, written otherwise",
)


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repo") / "vllm"
    for version, commit in zip(VERSIONS, toy.repository(folder, VERSIONS), strict=True):
        toy.git(folder, "tag", version.replace(" ", "-").replace(",", ""), commit)
    return folder


class Run:
    """Runs the toy on two versions and reads the report."""

    def __init__(self, diffuzz: Command, repo: Path, folder: Path) -> None:
        self._diffuzz, self._repo, self._folder = diffuzz, repo, folder

    def __call__(self, baseline: str, candidate: str, *more: str) -> tuple[int, dict[str, Any]]:
        done = self._diffuzz(
            *("run", "toy_scale", "--targets", toy.TARGETS, "--repo", str(self._repo)),
            *("--baseline", baseline, "--candidate", candidate, "--json", "out.json"),
            *("--examples", "24", "--out", "run", *more),
        )
        assert "Traceback" not in done.stderr, done.stderr
        self.stdout, self.stderr = done.stdout, done.stderr
        return done.returncode, json.loads((self._folder / "out.json").read_text())


@pytest.fixture
def run(diffuzz: Command, repo: Path, tmp_path: Path) -> Run:
    return Run(diffuzz, repo, tmp_path)


def test_a_precision_regression_and_its_fix(run: Run) -> None:
    code, report = run("right", "narrow")
    assert code == 1
    (finding,) = report["findings"]
    assert (finding["kind"], finding["direction"]) == ("precision", "regression")
    assert "e4m3fn" in finding["explanation"]["text"]
    assert finding["measure"]["candidate"]["max_ulp"] > 1
    assert finding["measure"]["baseline"]["max_ulp"] < 1
    assert "REGRESSION precision" in run.stdout

    code, report = run("narrow", "right")
    assert code == 0
    assert [f["direction"] for f in report["findings"]] == ["fixed"]
    code, _ = run("narrow", "right", "--fail-on", "any")
    assert code == 1


def test_an_assertion_names_the_flag_and_the_backends(run: Run) -> None:
    code, report = run("right", "asserts")
    assert code == 1
    (finding,) = report["findings"]
    assert (finding["kind"], finding["direction"]) == ("assertion", "regression")
    for part in ("this toy wants a quantised query", "takes_quantised=False", "Plain"):
        assert part in finding["message"]
    assert "Quantised" not in finding["backends"]
    assert finding["location"]["file"] == "vllm/toy/scale.py"


@pytest.mark.parametrize(
    ("version", "kind", "words"),
    [
        ("forgets-the-scale", "wrong-result", "scale missing"),
        ("writes-nothing", "wrong-result", "out"),
        ("dies", "crash", "SIGABRT"),
        ("raises", "crash", "KeyError"),
        ("changes-its-input", "wrong-result", "codes"),
    ],
)
def test_each_kind_of_wrong(run: Run, version: str, kind: str, words: str) -> None:
    code, report = run("right", version)
    assert code == 1
    assert kind in {f["kind"] for f in report["findings"]}
    assert any(words in f["message"] for f in report["findings"]), report["findings"]


def test_equal_slices_share_a_hash_and_differ_in_nothing(run: Run) -> None:
    code, report = run("right", "right-written-otherwise")
    assert code == 0
    assert report["findings"] == []
    code, report = run("right", "right")
    (target,) = report["targets"]
    assert target["slices"]["baseline"] == target["slices"]["candidate"]
    assert target["verdicts"] == {"agree": 24, "differ": 0, "unknown": 0}


def test_sanitizers_say_where_they_had_nothing_to_do(run: Run) -> None:
    code, report = run("right", "narrow", "--sanitize")
    assert code == 1
    assert report["targets"][0]["sanitizer"] == {"cases": 0, "note": "no native ops"}
    assert "sanitizers: toy_scale on gfx950: no native ops" in run.stdout


def test_one_case_for_each_combination_of_options_is_sanitized() -> None:
    target = discovery.load("toy_scale", (toy.TARGETS,))
    drawn = draw_cases(target, count=60, seed=0)
    chosen = distinct(drawn, target.axes)
    options = [(case["mode"], case["takes_quantised"]) for case in chosen]
    assert len(options) == len(set(options)) == 4
    assert all(case in drawn for case in chosen)


def test_a_latent_bug_is_in_both_and_fails_only_on_any(run: Run) -> None:
    code, report = run("narrow", "narrow")
    assert code == 0
    assert [f["direction"] for f in report["findings"]] == ["both"]


def test_what_cannot_be_told_is_counted_never_passed(run: Run) -> None:
    code, report = run("right", "needs-more")
    assert code == 3
    (target,) = report["targets"]
    assert target["verdicts"]["unknown"] == target["cases"] == 24
    assert target["unknown_reasons"] == {"new parameter surprise": 24}
    assert "new parameter surprise" in run.stdout
    code, report = run("right", "misses-a-name")
    assert code == 3
    (reason,) = report["targets"][0]["unknown_reasons"]
    assert reason.endswith("missing no_such_function")


def test_a_seed_reproduces_the_report(run: Run, tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        _, report = run("right", "narrow", "--seed", "5", "--jobs", "2")
        report.pop("started")
        for target in report["targets"]:
            target.pop("seconds")
        texts.append(json.dumps(report))
    assert texts[0] == texts[1]
    _, other = run("right", "narrow", "--seed", "6")
    assert other["findings"][0]["case"]["id"] != json.loads(texts[0])["findings"][0]["case"]["id"]


def test_the_reproduce_command_works_when_pasted(
    run: Run, diffuzz: Command, tmp_path: Path
) -> None:
    _, report = run("right", "narrow")
    words = shlex.split(report["findings"][0]["reproduce"])
    assert words.pop(0) == "diffuzz"
    shown = diffuzz(*words, "--targets", toy.TARGETS)
    assert shown.returncode == 1, shown.stdout + shown.stderr
    assert "the finding's own signature" in shown.stdout
    words[words.index("--revision") + 1] = "right"
    assert diffuzz(*words, "--targets", toy.TARGETS).returncode == 0
    words[words.index("--revision") + 1] = "needs-more"
    assert diffuzz(*words, "--targets", toy.TARGETS).returncode == 125
    document = yaml.safe_load(Path(tmp_path, words[1]).read_text())
    assert document["signature"] == report["findings"][0]["signature"]


def test_the_command_as_a_process(diffuzz_process: Command, repo: Path) -> None:
    done = diffuzz_process(
        *("run", "toy_scale", "--targets", toy.TARGETS, "--repo", str(repo)),
        *("--baseline", "right", "--candidate", "narrow", "--examples", "8"),
    )
    assert done.returncode == 1
    assert "REGRESSION precision" in done.stdout
    assert done.stderr == ""


def test_a_working_tree_is_a_revision(diffuzz: Command, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    toy.repository(clone, ["right"])
    toy.write_tree(clone, {"vllm/toy/scale.py": toy.kernel("forgets the scale")})
    words = ("--targets", toy.TARGETS, "--examples", "5")
    done = diffuzz("run", "toy_scale", "--repo", str(clone), *words)
    assert done.returncode == 1, done.stderr
    assert "scale missing" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "nosuch"), "unknown target 'nosuch'"),
        (("run", "toy_scale", "--arch", "sm1"), "unknown arch 'sm1'"),
        (("run", "toy_scale", "--baseline", "nosuchrev"), "nosuchrev"),
        (("run", "toy_scale", "--repo", "nowhere"), "nowhere"),
        (("run", "toy_scale", "--json", "no/such/dir/out.json"), "no/such/dir"),
        (("run", "toy_scale", "--examples", "0"), "--examples"),
        (("run", "toy_scale", "--budget", "soon"), "'soon' is not a time"),
        (("replay", "nofile.yaml", "--revision", "HEAD"), "nofile.yaml"),
        (("slice", "toy_scale", "--revision", "nosuchrev"), "nosuchrev"),
    ],
)
def test_bad_input_is_one_clear_line(
    diffuzz: Command, repo: Path, words: tuple[str, ...], said: str
) -> None:
    more = ["--targets", toy.TARGETS]
    if "--repo" not in words:
        more += ["--repo", str(repo)]
    done = diffuzz(*words, *more)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("diffuzz:")]) <= 1


def test_an_unwritable_run_folder_is_one_clear_line(
    diffuzz: Command, repo: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = diffuzz(
        *("run", "toy_scale", "--targets", toy.TARGETS, "--repo", str(repo)),
        *("--out", "file/run"),
    )
    assert done.returncode == 2
    assert done.stderr.startswith("diffuzz: --out file/run: ")


def test_a_slice_is_written_for_people(diffuzz: Command, repo: Path, tmp_path: Path) -> None:
    done = diffuzz(
        *("slice", "toy_scale", "--targets", toy.TARGETS, "--repo", str(repo)),
        *("--revision", "right", "--out", "written"),
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "written" / "vllm" / "toy" / "scale.py").read_text()
    assert text.count("\n") == toy.kernel("right").count("\n")
    assert "def scale_rows" in text
    assert "import time" not in text
