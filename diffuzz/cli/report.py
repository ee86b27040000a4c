"""``diffuzz report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from diffuzz.errors import UsageError


@click.command("report")
@click.argument("folder", metavar="DIR")
@click.option("--junit", metavar="FILE", help="Write JUnit XML; - for stdout, as for the others.")
@click.option("--sarif", metavar="FILE", help="Write SARIF 2.1.0, for code scanning.")
@click.option("--html", metavar="FILE", help="Write one self-contained HTML page.")
@click.option("--markdown", metavar="FILE", help="Write Markdown, as for a GitHub job summary.")
@click.option("--issue", metavar="FINDING", help="Print the draft of an issue for this finding.")
@click.option(
    "--fail-on",
    type=click.Choice(["regression", "any", "never"]),
    default="regression",
    show_default=True,
    help="Findings that are failures in JUnit.",
)
def command(
    folder: str,
    junit: str | None,
    sarif: str | None,
    html: str | None,
    markdown: str | None,
    issue: str | None,
    fail_on: str,
) -> None:
    """Make the reports of the run kept in DIR again, without running anything.

    With no option all are written into DIR: junit.xml, report.sarif, report.html, summary.md and
    issues/ID.md for each finding. Nothing is ever sent anywhere.
    """
    from diffuzz.report.documents import check_writable, write_all
    from diffuzz.report.issue import find
    from diffuzz.report.issue import issue as draft
    from diffuzz.report.stored import read_report

    files = {"junit": junit, "sarif": sarif, "html": html, "markdown": markdown}
    named = [file for file in files.values() if file is not None]
    if named.count("-") + (issue is not None) > 1:
        raise UsageError("only one report can go to standard output")
    for option, file in files.items():
        check_writable(f"--{option}", file)
    report = read_report(Path(folder))
    if not named and issue is None:
        _write_folder(report, Path(folder), fail_on)
        return
    text = None if issue is None else draft(report, find(report, issue))
    write_all(report, **files, fail_on=fail_on)
    if text is not None:
        click.echo(text, nl=False)


def _write_folder(report: dict[str, Any], folder: Path, fail_on: str) -> None:
    """Every report into the run's folder; standard output says what was written."""
    from diffuzz.report.documents import write, write_all
    from diffuzz.report.issue import issue

    names = {
        "junit": "junit.xml",
        "sarif": "report.sarif",
        "html": "report.html",
        "markdown": "summary.md",
    }
    files = {option: str(folder / name) for option, name in names.items()}
    write_all(report, **files, fail_on=fail_on)
    drafts = {_draft(folder, finding): finding for finding in report["findings"]}
    for path, finding in drafts.items():
        path.parent.mkdir(exist_ok=True)
        write(str(path), issue(report, finding))
    for file in [*files.values(), *map(str, drafts)]:
        click.echo(file)


def _draft(folder: Path, finding: dict[str, Any]) -> Path:
    """Where a finding's draft goes. The id comes from a file, so it is held to a plain name."""
    name: str = finding["id"]
    if not name or name.startswith(".") or set(name) & set('/\\:*?"<>|\0'):
        raise UsageError(f"{folder / 'report.json'}: {name[:60]!r} is not the id of a finding")
    return folder / "issues" / f"{name}.md"
