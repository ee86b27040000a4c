"""``diffuzz bundle``."""

from __future__ import annotations

from pathlib import Path

import click

from diffuzz import discovery
from diffuzz.cli import options, streams
from diffuzz.errors import UsageError


@click.command("bundle")
@click.option(
    "--revision", "revisions", multiple=True, metavar="REV", help="Revision to pack; repeatable."
)
@options.repo
@click.option(
    "--target", "targets", multiple=True, metavar="TARGET", help="Target to pack. [default: all]"
)
@click.option(
    "--corpus",
    "corpora",
    multiple=True,
    metavar="DIR",
    help="Corpus to pack. [default: those a run replays]",
)
@click.option("--out", metavar="FILE", help="The bundle to write.")
@click.option("--show", metavar="FILE", help="Say what a bundle holds instead.")
@click.option("--unpack-corpus", metavar="DIR", help="With --show: write its corpus there.")
@options.target_folders
def command(
    revisions: tuple[str, ...],
    repo: str | None,
    targets: tuple[str, ...],
    corpora: tuple[str, ...],
    out: str | None,
    show: str | None,
    unpack_corpus: str | None,
    target_folders: tuple[str, ...],
) -> int:
    """Pack revisions and a corpus into one file for a machine with neither git nor network.

    There, `bundle:FILE#REV` is a revision like any other, REV written as it was packed:
    `diffuzz run --baseline bundle:FILE#pypi:0.19.1 --candidate bundle:FILE#pypi:0.20.0`.
    """
    if show is not None:
        if revisions or out:
            raise UsageError("--show takes no --revision and no --out")
        _show(Path(show), Path(unpack_corpus) if unpack_corpus else None)
        return 0
    if not revisions or not out:
        raise UsageError("bundle needs --revision REV and --out FILE (or --show FILE)")
    from diffuzz import corpus
    from diffuzz.bundle import pack
    from diffuzz.sources.revision import open_revision

    names = targets or tuple(discovery.names(target_folders))
    parent = Path(out).resolve().parent
    if not parent.is_dir():
        raise UsageError(f"--out {out}: no folder {parent}")
    progress = streams.download_progress()
    sources = [open_revision(text, repo, progress=progress) for text in dict.fromkeys(revisions)]
    folders = [Path(name) for name in corpora] or corpus.default_folders()
    packed = pack(sources, names, Path(out), corpora=folders, target_folders=target_folders)
    for line in packed.missing:
        click.echo(f"not in the revision, packed as such: {line}", err=True)
    size = packed.size / 1e6
    click.echo(f"{out}: {len(sources)} revisions, {packed.files} files, {size:.1f} MB")
    return 0


def _show(path: Path, unpack: Path | None) -> None:
    from diffuzz.bundle import unpack_corpus
    from diffuzz.sources.bundle import open_bundle

    bundle = open_bundle(path)
    click.echo(f"targets: {', '.join(bundle.targets)}")
    for item in bundle.manifest["revisions"]:
        words = [item["revision"], item["commit"] or "", item["date"] or "", item["note"]]
        click.echo(f"revision: {' '.join(w for w in words if w)} ({len(item['files'])} files)")
    click.echo(f"corpus: {len(bundle.manifest['corpus'])} cases")
    if unpack is not None:
        unpack_corpus(path, unpack)
