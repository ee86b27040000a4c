"""``diffuzz report`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from diffuzz.errors import UsageError
from diffuzz.report.documents import check_writable, write_all
from tests.report import sample

NAMES = ["junit.xml", "report.sarif", "report.html", "summary.md"]


def diffuzz(*words: str, folder: Path | None = None) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "diffuzz", "report", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        encoding="utf-8",
    )


@pytest.fixture
def stored(run_folder: Path) -> Path:
    (run_folder / "report.json").write_text(json.dumps(sample.usual()))
    return run_folder


def test_without_options_every_report_is_written_into_the_folder(stored: Path):
    done = diffuzz(str(stored))
    assert (done.returncode, done.stderr) == (0, "")
    drafts = [f"issues/{item['id']}.md" for item in sample.usual()["findings"]]
    assert done.stdout.splitlines() == [str(stored / name) for name in [*NAMES, *drafts]]
    assert all((stored / name).stat().st_size > 500 for name in [*NAMES, *drafts])


def test_the_same_run_gives_the_same_bytes(stored: Path):
    diffuzz(str(stored))
    before = {name: (stored / name).read_bytes() for name in NAMES}
    diffuzz(str(stored))
    assert before == {name: (stored / name).read_bytes() for name in NAMES}


def test_only_what_was_asked_for_is_written(stored: Path, tmp_path: Path):
    done = diffuzz(str(stored), "--junit", "j.xml", "--markdown", "-", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("## diffuzz: 2 regressions")
    assert (tmp_path / "j.xml").read_text().startswith("<?xml")
    assert [path.name for path in stored.iterdir()] == ["report.json"]


def test_a_draft_goes_to_standard_output(stored: Path):
    done = diffuzz(str(stored), "--issue", "gather-crash-00000003")
    assert done.returncode == 0
    assert done.stdout.startswith("# gather on gfx942: 5 % of 1,000 elements wrong")


def test_fail_on_reaches_the_junit_document(stored: Path):
    done = diffuzz(str(stored), "--junit", "-", "--fail-on", "any")
    assert done.stdout.count("<failure ") == 3
    assert diffuzz(str(stored), "--junit", "-").stdout.count("<failure ") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent"], "absent: no such folder"),
        (["."], "no report.json in it"),
        (["RUN", "--issue", "x"], "no finding 'x' in this run"),
        (["RUN", "--junit", "no/such/j.xml"], "--junit no/such/j.xml: cannot be written there"),
        (["RUN", "--junit", "-", "--sarif", "-"], "only one report can go to standard output"),
        (["RUN", "--issue", "x", "--html", "-"], "only one report can go to standard output"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(
    stored: Path, tmp_path: Path, words: list[str], said: str
):
    done = diffuzz(*[str(stored) if word == "RUN" else word for word in words], folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("diffuzz: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["../../evil", "", ".x", "a/b", "a\\b", "a\0b"])
def test_a_draft_is_never_written_outside_of_the_folder(run_folder: Path, name: str):
    report = sample.report(sample.target(findings=[sample.finding(1, id=name)]))
    (run_folder / "report.json").write_text(json.dumps(report))
    done = diffuzz(str(run_folder))
    assert done.returncode == 2
    assert "is not the id of a finding" in done.stderr
    assert not [path for path in run_folder.parent.rglob("*.md") if path.name != "summary.md"]


def test_it_imports_neither_torch_nor_git(stored: Path):
    script = (
        "import sys\nfrom diffuzz.cli import cli\n"
        f"cli.main(['report', {str(stored)!r}], standalone_mode=False)\n"
        "print(sorted({'torch', 'git', 'triton'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_it_is_listed_and_has_help():
    done = subprocess.run(
        [sys.executable, "-m", "diffuzz", "--help"], capture_output=True, text=True
    )
    assert "report" in done.stdout
    assert "--sarif FILE" in diffuzz("--help").stdout


def test_write_all_writes_nothing_that_was_not_named(tmp_path: Path):
    write_all(sample.usual())
    write_all(sample.usual(), sarif=str(tmp_path / "s"))
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_folder_that_cannot_be_written_is_found_before_the_run(tmp_path: Path):
    (tmp_path / "old").write_text("x")
    for good in (None, "-", str(tmp_path / "new"), str(tmp_path / "old")):
        check_writable("--junit", good)
    for bad in (str(tmp_path), str(tmp_path / "a" / "b"), str(tmp_path / "old" / "b")):
        with pytest.raises(UsageError, match=r"--junit .*: cannot be written there"):
            check_writable("--junit", bad)
