"""Writes a report in the forms that were asked for: JUnit, SARIF, HTML, Markdown.

``-`` as a file is standard output. :func:`check_writable` is for before a run, so that an hour of
work does not end at a folder that is not there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diffuzz.errors import UsageError
from diffuzz.report.html import html as html_text
from diffuzz.report.junit import junit as junit_text
from diffuzz.report.markdown import markdown as markdown_text
from diffuzz.report.sarif import sarif as sarif_text


def write_all(
    report: dict[str, Any],
    *,
    junit: str | None = None,
    sarif: str | None = None,
    html: str | None = None,
    markdown: str | None = None,
    fail_on: str = "regression",
) -> None:
    """Write ``report`` (:mod:`diffuzz.report.data`) to each file that is named.

    ``fail_on`` decides which findings are failures in JUnit, as it decides the exit code.
    """
    wanted: list[tuple[str | None, Callable[[], str]]] = [
        (junit, lambda: junit_text(report, fail_on)),
        (sarif, lambda: sarif_text(report)),
        (html, lambda: html_text(report)),
        (markdown, lambda: markdown_text(report)),
    ]
    for file, make in wanted:
        if file is not None:
            write(file, make())


def write(file: str, text: str) -> None:
    """Write a document as UTF-8, or to standard output for ``-``."""
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from None


def check_writable(option: str, file: str | None) -> None:
    """:class:`UsageError` naming ``option`` if ``file`` could not be written."""
    if file in (None, "-"):
        return
    path = Path(str(file))
    parent = path.absolute().parent
    fits = os.access(path, os.W_OK) if path.exists() else os.access(parent, os.W_OK)
    if not parent.is_dir() or path.is_dir() or not fits:
        raise UsageError(f"{option} {file}: cannot be written there")
