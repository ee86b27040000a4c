"""``diffuzz slice``."""

from __future__ import annotations

from pathlib import Path

import click

from diffuzz import discovery
from diffuzz.arch import get_arch
from diffuzz.cli import options, streams
from diffuzz.errors import NothingTested, UsageError
from diffuzz.slicing import Missing, slice_target
from diffuzz.sources.revision import open_revision


@click.command("slice")
@click.argument("target")
@click.option("--revision", required=True, metavar="REV", help="Revision to slice.")
@options.repo
@click.option("--arch", "arch_name", metavar="ARCH", help="Architecture of the stand-ins.")
@click.option("--out", metavar="DIR", help="Write the slice to this folder.")
@options.target_folders
def command(
    target: str,
    revision: str,
    repo: str | None,
    arch_name: str | None,
    out: str | None,
    target_folders: tuple[str, ...],
) -> None:
    """Show what TARGET's slice holds at a revision, and write it as runnable source.

    The files keep vLLM's paths and line numbers. Exit code 3 if the revision lacks the code.
    """
    loaded = discovery.load(target, target_folders)
    arch = get_arch(arch_name or loaded.archs[0])
    source = open_revision(revision, repo, progress=streams.download_progress())
    found = slice_target(source, loaded.name, loaded.entries, loaded.stand_ins(arch))
    if isinstance(found, Missing):
        raise NothingTested(f"{target} at {revision}: {found.reason}")
    click.echo(f"slice {found.hash}")
    for line in found.summary():
        click.echo(line)
    if out is not None:
        try:
            found.write(Path(out))
        except OSError as error:
            raise UsageError(f"{out}: {error.strerror or error}") from None
        click.echo(f"written to {out}")
