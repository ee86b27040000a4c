"""Option types and options several commands share."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.3
    """A time span such as ``90s``, ``10m`` or ``1h``; seconds as a float."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value))
        if match is None:
            self.fail(f"{value!r} is not a time such as 90s, 10m or 1h", param, ctx)
        return float(match[1]) * _UNITS[match[2] or "s"]


repo = click.option(
    "--repo", metavar="DIR|URL", help="vLLM repository that revisions are looked up in."
)
target_folders = click.option(
    "--targets",
    "target_folders",
    multiple=True,
    metavar="DIR",
    help="Folder with further targets; may be given more than once.",
)
arch = click.option(
    "--arch", "archs", multiple=True, metavar="ARCH", help="gfx942, gfx950, sm90 or sm100."
)
executor = click.option(
    "--executor",
    type=click.Choice(["auto", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="Where kernels run; auto takes a GPU when there is one.",
)
time_limit = click.option(
    "--case-timeout",
    type=Duration(),
    default="120s",
    show_default=True,
    help="A case that runs longer is a hang.",
)
