"""From what the user named to jobs: revisions opened, targets sliced for each arch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diffuzz import discovery
from diffuzz.arch import Arch, get_arch
from diffuzz.campaign import Job
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
    """Slices and facts of one source, each worked out once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._slices: dict[tuple[str, str], Slice | Missing] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}

    def slice(self, target: Target, arch: Arch) -> Slice | Missing:
        key = (target.name, arch.name)
        if key not in self._slices:
            self._slices[key] = slice_target(
                self.source, target.name, target.entries, target.stand_ins(arch)
            )
        return self._slices[key]

    def facts(self, target: Target) -> Mapping[str, Any]:
        if target.name not in self._facts:
            self._facts[target.name] = target.facts(self.source)
        return self._facts[target.name]


def plan(
    baseline: Source,
    candidate: Source,
    targets: Sequence[str],
    archs: Sequence[str],
    executor: str,
    target_folders: tuple[str, ...] = (),
) -> Plan:
    """One job for each target and arch that both revisions have the code for.

    No ``archs`` means each target's own. A target whose code one revision lacks is untested, with
    the slicer's reason and the revision in front of it.
    """
    made = Plan()
    before = Slicer(baseline)
    after = before if candidate is baseline else Slicer(candidate)
    slicers = (before, after)
    for name in targets:
        target = discovery.load(name, target_folders)
        for arch_name in archs or target.archs:
            arch = get_arch(arch_name)
            old, new = before.slice(target, arch), after.slice(target, arch)
            if isinstance(old, Missing) or isinstance(new, Missing):
                made.untested.append(_untested(name, arch_name, executor, (old, new), slicers))
                continue
            facts = (before.facts(target), after.facts(target))
            made.jobs.append(Job(target, arch, executor, old, new, facts, target_folders))
    return made


def _untested(
    target: str,
    arch: str,
    executor: str,
    sides: Sequence[Slice | Missing],
    slicers: Sequence[Slicer],
) -> Untested:
    reasons = [
        f"{slicer.source.identity.revision}: {side.reason}"
        for side, slicer in zip(sides, slicers, strict=True)
        if isinstance(side, Missing)
    ]
    hashes = [side.hash if isinstance(side, Slice) else None for side in sides]
    slices = dict(zip(("baseline", "candidate"), hashes, strict=True))
    return Untested(target, arch, executor, "; ".join(dict.fromkeys(reasons)), slices)
