"""Where words go: results to standard output, progress to standard error.

A progress bar shows only on a terminal and outside CI; elsewhere progress is silent but for
downloads, which take long enough to deserve a line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def output() -> Console:
    """Standard output; colour by rich's rules, so ``NO_COLOR`` and pipes are respected."""
    # A pipe has no width to fit: a log must not lose columns to a default of 80.
    width = None if sys.stdout.isatty() else 200
    return Console(file=sys.stdout, highlight=False, soft_wrap=True, width=width)


def _interactive() -> bool:
    return sys.stderr.isatty() and not os.environ.get("CI")


def download_progress() -> Callable[[str, int, int | None], None]:
    """A callback ``(what, done, total)`` that says once what is being fetched."""
    said: set[str] = set()

    def show(what: str, done: int, total: int | None) -> None:
        if what not in said:
            said.add(what)
            size = f" ({total / 1e6:.0f} MB)" if total else ""
            print(f"fetching {what}{size}", file=sys.stderr, flush=True)

    return show


@contextmanager
def case_progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar over ``total`` cases; yields a function that counts one case of the named job."""
    if not _interactive():
        yield lambda job: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("fuzzing", total=total)

        def count(job: str) -> None:
            progress.update(task, description=job, advance=1)

        yield count
