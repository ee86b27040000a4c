"""Walking through releases."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from packaging.version import Version

from diffuzz.arch import Arch
from diffuzz.history.variants import Cutter, History, Variant
from diffuzz.sources.archive import Releases
from diffuzz.sources.tree import Progress
from diffuzz.target import Target


def release_history(
    releases: Releases,
    older: Version,
    newer: Version,
    target: Target,
    arch: Arch,
    *,
    progress: Progress | None = None,
) -> History:
    """The variants of all releases from ``older`` to ``newer``, both included."""
    between: Collection[Version] = [v for v in releases.available_versions() if older < v < newer]
    versions = [older, *sorted(between), newer]
    cutter = Cutter(target, arch)
    found: list[Variant] = []
    for version in versions:
        source = releases.source(version, progress=progress)
        piece = cutter.at(source)
        if found and found[-1].key == piece.key:
            found[-1] = replace(found[-1], until=f"pypi:{version}", spans=found[-1].spans + 1)
        else:
            parents = (len(found) - 1,) if found else ()
            name = f"pypi:{version}"
            found.append(Variant(piece, cutter, source, name, None, name, 1, parents))
    cutter.save()
    return History(tuple(found), len(versions), len(versions), cutter.sliced)
