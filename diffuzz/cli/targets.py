"""``diffuzz targets``."""

from __future__ import annotations

import click

from diffuzz import discovery
from diffuzz.cli import options


@click.command("targets")
@options.target_folders
def command(target_folders: tuple[str, ...]) -> None:
    """List the targets: name, architectures, what the kernel does."""
    for name in discovery.names(target_folders):
        target = discovery.load(name, target_folders)
        click.echo(f"{name:14} {', '.join(target.archs):22} {target.summary}")
