"""Every command of the README: parsed, and the tour run as it stands, on real releases."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from diffuzz.cli import cli
from diffuzz.sources.revision import open_revision

from .network import index_needed

README = (Path(__file__).parent.parent / "README.md").read_text()


def block(name: str) -> list[str]:
    """The lines of the fenced block that follows ``<!-- ci: NAME -->``."""
    found = re.search(rf"<!-- ci: {name} -->\n```bash\n(.*?)```", README, re.S)
    assert found, name
    return found[1].splitlines()


def commands() -> list[list[str]]:
    """Every call of diffuzz in a block of commands or in running text, as words."""
    text = re.sub(r"```text\n.*?```", "", README, flags=re.S)
    lines = [
        line.split("#")[0]
        for code in re.findall(r"```bash\n(.*?)```", text, re.S)
        for line in code.splitlines()
    ]
    lines += re.findall(r"`(diffuzz [^`]+)`", text)
    words = [shlex.split(line) for line in lines]
    calls = []
    for line in words:
        for at, word in enumerate(line):
            if Path(word).name == "diffuzz":
                calls.append(line[at + 1 :])
    return calls


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_parses(words: list[str]) -> None:
    with click.Context(cli) as context:
        name, command, rest = cli.resolve_command(context, list(words))
        assert command is not None
        if isinstance(command, click.Group):
            name, command, rest = command.resolve_command(context, rest)
            assert command is not None
        # URL, DIR and the like stand for the reader's own; they parse like any word.
        command.make_context(name, rest, parent=context)


def test_every_command_of_the_tool_is_in_the_readme() -> None:
    with click.Context(cli) as context:
        missing = [name for name in cli.list_commands(context) if f"diffuzz {name}" not in README]
    assert missing == []


def test_every_link_leads_somewhere() -> None:
    root = Path(__file__).parent.parent
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target


@pytest.mark.network
@pytest.mark.slow
def test_the_tour_runs_as_it_stands(tmp_path: Path) -> None:
    with index_needed("the README's tour was"):
        for version in ("0.19.1", "0.20.0"):
            open_revision(version, None, cwd=tmp_path)
    folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    for line in block("tour"):
        wanted = int(found[1]) if (found := re.search(r"# exit (\d+)", line)) else 0
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == wanted, f"{line}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    assert (tmp_path / "tour" / "report.html").exists()
