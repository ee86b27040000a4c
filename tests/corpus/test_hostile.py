"""Corpus files made to harm: each refused with file, line and reason, with bounds, nothing run."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from diffuzz import corpus, discovery
from diffuzz.errors import DiffuzzError

from .. import toy
from .hostile import GOOD, Hostile, everything

HOSTILE = everything()
TARGET = discovery.load("toy_scale", (toy.TARGETS,))


def put(folder: Path, item: Hostile) -> Path:
    path = folder / "toy_scale" / item.name
    path.parent.mkdir(parents=True)
    path.write_bytes(item.raw)
    return path


def test_the_good_file_is_good(tmp_path: Path) -> None:
    put(tmp_path, Hostile("good", GOOD.encode(), None))
    (entry,) = corpus.load(tmp_path, TARGET)
    assert entry.case(TARGET.axes)["rows"] == 2


def test_there_are_two_hundred() -> None:
    assert len(HOSTILE) >= 200


@pytest.mark.parametrize(
    "item", HOSTILE, ids=[i.what.encode("ascii", "replace").decode() for i in HOSTILE]
)
def test_each_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: Hostile) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        path = put(tmp_path, item)
    except OSError:
        pytest.fail(f"the file system does not take {item.name!r}: choose another hostile name")
    with pytest.raises(DiffuzzError) as refused:
        corpus.load(tmp_path, TARGET)
    said = str(refused.value)
    assert len(said.splitlines()) == 1
    assert said.isprintable()
    if item.name == Hostile("", b"", None).name:
        where, _, reason = said.removeprefix(f"{path}:").partition(": ")
        assert where.isdigit(), said
        assert item.line is None or int(where) == item.line, said
        assert reason.strip()
    assert len(said) < 600 + len(str(path))
    assert not (tmp_path / "executed").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text(GOOD)
    (tmp_path / "toy_scale").mkdir()
    (tmp_path / "toy_scale" / "case-1.yaml").symlink_to(outside)
    with pytest.raises(DiffuzzError, match="a link"):
        corpus.load(tmp_path, TARGET)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy_scale" / "case-1.yaml").mkdir(parents=True)
    with pytest.raises(DiffuzzError, match="not a file"):
        corpus.load(tmp_path, TARGET)
    (tmp_path / "toy_scale" / "case-1.yaml").rmdir()
    os.mkfifo(tmp_path / "toy_scale" / "case-1.yaml")
    with pytest.raises(DiffuzzError, match="not a file"):
        corpus.load(tmp_path, TARGET)


_ALL = """\
import resource, sys
from pathlib import Path
from diffuzz.casefile import read_case_file
from diffuzz.errors import DiffuzzError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
refused = 0
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        read_case_file(path)
    except DiffuzzError:
        refused += 1
print(refused, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_all_of_them_in_bounded_time_and_memory(tmp_path: Path) -> None:
    """One process reads them all under a limit on its processor time; the kernel holds it to it."""
    for number, item in enumerate(HOSTILE):
        (tmp_path / f"{number}.yaml").write_bytes(item.raw)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))

    done = subprocess.run(
        [sys.executable, "-c", _ALL, str(tmp_path)],
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    assert done.returncode == 0, done.stderr
    refused, kilobytes = map(int, done.stdout.split())
    assert refused > 150  # the others need the target, or a name, to be seen through
    assert kilobytes < 64 << 10
