"""``diffuzz crosscheck``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import UsageError

EXIT_NOTHING = 3


@click.command("crosscheck")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--revision", required=True, metavar="REV", help="Revision to take the slices of.")
@options.repo
@click.option("--examples", type=click.IntRange(1), default=300, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(1), help="Pairs of workers. [default: half the cores]")
@click.option("--json", "json_file", metavar="FILE", help="Write the comparison as JSON.")
@options.time_limit
@options.target_folders
def command(
    targets: tuple[str, ...],
    revision: str,
    repo: str | None,
    examples: int,
    seed: int,
    jobs: int | None,
    json_file: str | None,
    case_timeout: float,
    target_folders: tuple[str, ...],
) -> int:
    """Run the same cases on the CPU executor and on the GPU and compare every bit.

    Both run the device's own arch. Exit code: 0 compared, and both right wherever they differ;
    1 some difference in which one is wrong; 2 bad usage; 3 nothing could be compared.
    """
    from diffuzz.arch import get_arch
    from diffuzz.crosscheck import Pairing, crosscheck
    from diffuzz.devices import choose_executor
    from diffuzz.executors.gpu import present_arch
    from diffuzz.generate import draw_cases
    from diffuzz.planning import Slicer
    from diffuzz.sources.revision import open_revision

    choose_executor("gpu")
    arch = get_arch(present_arch() or "")
    if json_file is not None and not Path(json_file).resolve().parent.is_dir():
        raise UsageError(f"--json {json_file}: cannot be written there")
    slicer = Slicer(open_revision(revision, repo, progress=streams.download_progress()))
    lanes = jobs or max(1, (os.cpu_count() or 2) // 2)
    results = []
    for name in targets or tuple(discovery.names(target_folders)):
        target = discovery.load(name, target_folders)
        pairing = Pairing(target, arch, ("cpu", "gpu"), target_folders, case_timeout)
        cases = draw_cases(target, count=examples, seed=seed)
        results.append(crosscheck(slicer, pairing, cases, lanes).to_dict())
    if json_file is not None:
        Path(json_file).write_text(json.dumps(results, indent=1) + "\n")
    for line in (line for result in results for line in table(result)):
        click.echo(line)
    if not any(row["cases"] for result in results for row in result["rows"]):
        return EXIT_NOTHING
    wrong = any(row["one_wrong"] for result in results for row in result["rows"])
    return int(wrong or any(result["unlike"] for result in results))


def table(result: dict[str, Any]) -> list[str]:
    """The comparison of one target as lines."""
    first, second = result["executors"]
    head = f"{result['target']} on {result['arch']}: {first} against {second}"
    if result["untested"]:
        return [f"{head}: cannot tell: {result['untested']}"]
    lines = [f"{head}, {result['cases']} cases"]
    lines.append(
        f"  {'output':<16}{'dtype':<16}{'cases':>7}{'elements':>12}{'differing':>11}"
        f"{'NaN payload':>13}{'both right':>12}{'one wrong':>11}{'both wrong':>12}"
    )
    for row in result["rows"]:
        lines.append(
            f"  {row['output']:<16}{row['dtype']:<16}{row['cases']:>7}"
            f"{row['elements']:>12}{row['differing']:>11}{row['nan_payload']:>13}"
            f"{row['both_right']:>12}{row['one_wrong']:>11}{row['both_wrong']:>12}"
        )
        if row["first"]:
            values, bits = row["first"]["values"], row["first"]["bits"]
            lines.append(
                f"    first: element {row['first']['index']}: {first} {values[0]} "
                f"({bits[0]}), {second} {values[1]} ({bits[1]})"
            )
    lines += [f"  ended otherwise: {count} x {end}" for end, count in result["ends"].items()]
    if result["unlike"]:
        lines.append(f"  {len(result['unlike'])} cases ended differently on the two")
    return lines
