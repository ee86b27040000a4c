"""The command line: parse, wire, render, exit code. Commands load on demand, so that
``diffuzz --help`` imports neither torch nor git."""

from __future__ import annotations

import importlib
import sys

import click

from diffuzz import __version__
from diffuzz.errors import DiffuzzError

_COMMANDS = {
    "run": "Fuzz targets on two revisions and report what differs.",
    "report": "Make the reports of a kept run again: JUnit, SARIF, HTML, Markdown, issue drafts.",
    "replay": "Run saved cases on one revision: exit 0 right, 1 wrong, 125 cannot tell.",
    "nightly": "Test the newest revision of a branch within a budget, as every night.",
    "bisect": "Find the commit that brought a finding's behaviour, or the one that fixed it.",
    "timeline": "Run cases on every variant of a kernel and print each change of verdict.",
    "shrink": "Find the simplest case that shows a finding.",
    "corpus": "List, add, prune and merge the cases that every run replays first.",
    "reproducer": "Write one Python file that shows a finding with torch and triton alone.",
    "slice": "Write the runnable slice of a target at a revision.",
    "targets": "List the targets.",
    "crosscheck": "Run the same cases on the CPU executor and on the GPU and compare every bit.",
    "doctor": "Say what this machine can run, and what to do about what it cannot.",
    "bundle": "Pack revisions and a corpus into one file for a machine without network.",
}


class _Lazy(click.Group):
    """A group whose commands live in ``diffuzz.cli.<name>`` and are imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"diffuzz.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="diffuzz")
def cli() -> None:
    """Differential fuzzing and bisecting of vLLM's GPU kernels, without installing vLLM."""


def main() -> None:
    """Entry point: errors that are the user's to mend are one line, without a traceback."""
    try:
        status = cli.main(standalone_mode=False)
    except DiffuzzError as error:
        click.echo(f"diffuzz: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("diffuzz: interrupted", err=True)
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)
