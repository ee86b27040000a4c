#!/usr/bin/env python3
"""Names of the targets whose code differs between two revisions, on one line.

    changed_targets.py VLLM_CLONE BASELINE CANDIDATE [TARGET]...

A target that one revision lacks the code for counts as different, so that the run says so. Nothing
of either revision is executed. Further folders of targets: DIFFUZZ_TARGET_FOLDERS, with colons.
"""

from __future__ import annotations

import os
import sys

from diffuzz import discovery
from diffuzz.arch import Arch, get_arch
from diffuzz.errors import DiffuzzError
from diffuzz.planning import cut
from diffuzz.slicing import Missing
from diffuzz.sources import Source
from diffuzz.sources.repository import Repository
from diffuzz.target import Target


def main(clone: str, baseline: str, candidate: str, *wanted: str) -> None:
    folders = tuple(filter(None, os.environ.get("DIFFUZZ_TARGET_FOLDERS", "").split(":")))
    changed = []
    with Repository.open(clone) as repository:
        sources = [repository.source(revision) for revision in (baseline, candidate)]
        for name in wanted or discovery.names(folders):
            target = discovery.load(name, folders)
            archs = [get_arch(arch) for arch in target.archs]
            if any(len({code(s, target, arch) for s in sources}) > 1 for arch in archs):
                changed.append(name)
    print(*changed)


def code(source: Source, target: Target, arch: Arch) -> str:
    """What is the same for two revisions only if the target's code is."""
    piece = cut(source, target, arch)
    return f"none: {piece.reason}" if isinstance(piece, Missing) else piece.slice.hash


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    try:
        main(*sys.argv[1:])
    except DiffuzzError as error:
        raise SystemExit(f"diffuzz: {error}") from None
