"""What the doctor says of this machine, and of machines that lack something."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from diffuzz.doctor import checks
from tests.conftest import Command

STATES = {"ok", "warn", "red"}


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.slow
def test_the_whole_examination(
    diffuzz: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    done = diffuzz("doctor", "--json")
    report = json.loads(done.stdout)
    found = {check["name"]: check for check in report["checks"]}
    assert {check["state"] for check in found.values()} <= STATES
    assert found["Triton on the CPU"]["state"] == "ok", found["Triton on the CPU"]
    for name, check in found.items():
        assert bool(check["todo"]) == (check["state"] != "ok"), name
        assert "\n" not in check["said"] + check["todo"], name
    assert report["ok"] == (done.returncode == 0)
    assert report["ok"] == all(check["state"] != "red" for check in found.values())


def test_a_cache_that_cannot_be_written_is_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "file"))
    check = checks._cache()
    assert check.state == "red"
    assert "DIFFUZZ_CACHE" in check.todo


def test_no_compiler_is_a_warning_that_says_what_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    check = checks._compiler()
    assert (check.state, "g++" in check.said) == ("warn", True)
    assert "models" in check.todo


def test_no_git_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check = checks._repository(None)
    assert (check.state, check.said) == ("warn", "git is not installed")


def test_a_repository_that_is_named_and_not_there_is_red(tmp_path: Path) -> None:
    check = checks._repository(str(tmp_path / "none"))
    assert check.state == "red"


def test_an_index_that_is_switched_off_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    check = checks._index()
    assert (check.state, "no-index" in check.said) == ("warn", True)


def test_versions_are_held_against_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checks,
        "_NEEDED",
        {
            "pytest": ("1", None),
            "click": ("999", None),
            "rich": ("1", "2"),
            "no-such-package": ("1", None),
        },
    )
    found = [checks._package(name) for name in checks._NEEDED]
    assert [check.state for check in found] == ["ok", "red", "warn", "red"]
    assert all("pip install" in check.todo for check in found[1:])


def test_a_selftest_that_dies_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = write_program(tmp_path / "python", "#!/bin/sh\necho 'no driver here' >&2\nexit 1\n")
    monkeypatch.setattr(checks.sys, "executable", os.fspath(python))
    check = checks._selftest("Triton on the GPU", "gpu", "red", "look at the driver")
    assert (check.state, check.todo) == ("red", "look at the driver")
    assert check.said == "self-test failed: no driver here"


def test_a_gpu_torch_can_use_is_described_by_arch_and_flavour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ROCm machine as torch would describe it: no AMD GPU was at hand to run this on."""
    import torch

    class Properties:
        gcnArchName = "gfx942:sramecc+:xnack-"
        total_memory = 192_000_000_000

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "AMD Instinct MI300X")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.version, "hip", "7.0")
    check = checks._device()
    assert check.state == "ok"
    assert check.said == (
        "AMD Instinct MI300X (gfx942), 8 of it, 192 GB, ROCm 7.0, fp8 is e4m3fnuz"
    )
