"""``diffuzz doctor``."""

from __future__ import annotations

import json

import click

from diffuzz.cli import options


@click.command("doctor")
@options.repo
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
def command(repo: str | None, as_json: bool) -> int:
    """Say what this machine can run, and what to do about what it cannot.

    Exit code: 0 diffuzz can work here (warnings name what is not to be had), 1 it cannot.
    """
    from diffuzz.doctor import examine

    checks = examine(repo)
    well = all(check.state != "red" for check in checks)
    if as_json:
        listed = [check.to_dict() for check in checks]
        click.echo(json.dumps({"schema": 1, "ok": well, "checks": listed}, indent=2))
        return int(not well)
    for check in checks:
        colour = {"ok": "green", "warn": "yellow", "red": "red"}[check.state]
        state = click.style(f"{check.state:<5}", fg=colour)
        click.echo(f"{state} {check.name}: {check.said}")
        if check.todo:
            click.echo(f"      {check.todo}")
    return int(not well)
