"""From what the user named to jobs: revisions opened, targets sliced for each arch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from diffuzz import discovery
from diffuzz.arch import Arch, get_arch
from diffuzz.campaign import Job, Side
from diffuzz.errors import CannotTell
from diffuzz.executors import gpu, native_ops
from diffuzz.executors.native_ops import NativeOps
from diffuzz.native.closure import Closure
from diffuzz.slicing import Missing, Slice, slice_target
from diffuzz.sources import Source
from diffuzz.target import Target


@dataclass(frozen=True)
class Untested:
    """A target and arch that cannot be tested on these revisions, and why."""

    target: str
    arch: str
    executor: str
    reason: str
    slices: Mapping[str, str | None]


@dataclass
class Plan:
    jobs: list[Job] = field(default_factory=list)
    untested: list[Untested] = field(default_factory=list)


class Slicer:
    """Slices, native ops and facts of one source, each worked out once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._pieces: dict[tuple[str, str], Piece | Missing] = {}
        self._natives: dict[tuple[str, str, str], NativeOps] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}

    def piece(self, target: Target, arch: Arch) -> Piece | Missing:
        key = (target.name, arch.name)
        if key not in self._pieces:
            self._pieces[key] = cut(self.source, target, arch)
        return self._pieces[key]

    def native(self, piece: Piece, arch: Arch, executor: str) -> NativeOps:
        """The native ops of a piece, built; raises :class:`CannotTell` where they cannot be."""
        key = (piece.slice.hash, arch.name, executor)
        if key not in self._natives:
            on: Literal["cpu", "gpu"] = "gpu" if executor == "gpu" else "cpu"
            if on == "gpu":
                gpu.require(arch)
            self._natives[key] = native_ops.plan(piece.closure, arch, executor=on)
        return self._natives[key]

    def facts(self, target: Target) -> Mapping[str, Any]:
        if target.name not in self._facts:
            self._facts[target.name] = target.facts(self.source)
        return self._facts[target.name]


@dataclass(frozen=True)
class Piece:
    """A slice with the closure of the native ops it calls (None if it calls none). The closure's
    hash is part of the slice's, its files are among the slice's dependencies."""

    slice: Slice
    closure: Closure | None


def cut(source: Source, target: Target, arch: Arch) -> Piece | Missing:
    """Take a target out of a revision, native ops included; nothing is built."""
    stand_ins = target.stand_ins(arch)
    found = slice_target(source, target.name, target.entries, stand_ins)
    if isinstance(found, Missing) or not found.ops:
        return found if isinstance(found, Missing) else Piece(found, None)
    try:
        closure = native_ops.follow(source, found.ops, arch)
    except CannotTell as error:
        return Missing(error.reason, found.dependencies)
    assert closure is not None
    whole = slice_target(source, target.name, target.entries, stand_ins, extra=(closure.hash,))
    assert isinstance(whole, Slice)
    native = {(path, source.blob_id(path)) for path in closure.files}
    return Piece(replace(whole, dependencies=whole.dependencies | native), closure)


def plan(
    baseline: Source,
    candidate: Source,
    targets: Sequence[str],
    archs: Sequence[str],
    executor: str,
    target_folders: tuple[str, ...] = (),
) -> Plan:
    """One job for each target and arch that both revisions have the code for.

    No ``archs`` means each target's own, or of those the GPU's. A target whose code one revision
    lacks is untested, with the slicer's reason and the revision in front of it.
    """
    made = Plan()
    before = Slicer(baseline)
    after = before if candidate is baseline else Slicer(candidate)
    slicers = (before, after)
    for name in targets:
        target = discovery.load(name, target_folders)
        for arch_name in archs or gpu.default_archs(target, executor):
            arch = get_arch(arch_name)
            sides = [_side(slicer, target, arch, executor) for slicer in slicers]
            old, new = sides
            if isinstance(old, Missing) or isinstance(new, Missing):
                made.untested.append(_untested(name, arch_name, executor, sides, slicers))
                continue
            facts = (before.facts(target), after.facts(target))
            made.jobs.append(Job(target, arch, executor, old, new, facts, target_folders))
    return made


def _side(slicer: Slicer, target: Target, arch: Arch, executor: str) -> Side | Missing:
    piece = slicer.piece(target, arch)
    if isinstance(piece, Missing):
        return piece
    try:
        return Side(piece.slice, slicer.native(piece, arch, executor), piece.closure)
    except CannotTell as error:
        return Missing(error.reason, piece.slice.dependencies)


def _untested(
    target: str,
    arch: str,
    executor: str,
    sides: Sequence[Side | Missing],
    slicers: Sequence[Slicer],
) -> Untested:
    reasons = [
        f"{slicer.source.identity.revision}: {side.reason}"
        for side, slicer in zip(sides, slicers, strict=True)
        if isinstance(side, Missing)
    ]
    hashes = [None if isinstance(side, Missing) else side.slice.hash for side in sides]
    slices = dict(zip(("baseline", "candidate"), hashes, strict=True))
    return Untested(target, arch, executor, "; ".join(dict.fromkeys(reasons)), slices)
