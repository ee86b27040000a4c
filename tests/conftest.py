"""What all tests share: the command as a user runs it, in a process of its own or in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from diffuzz import cli

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def diffuzz(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run the command line in ``tmp_path`` within this process: what it prints, its exit code.

    Workers are processes of their own all the same; their template starts once for all tests.
    """
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["diffuzz", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(words, int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def diffuzz_process(tmp_path: Path) -> Command:
    """Run the command in ``tmp_path`` as a process of its own."""

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "diffuzz", *words],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run
