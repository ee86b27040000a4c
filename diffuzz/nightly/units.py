"""What there is to test at the head of the branch, and what each target is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from diffuzz import discovery
from diffuzz.arch import Arch, get_arch
from diffuzz.errors import DiffuzzError
from diffuzz.nightly.join import Data
from diffuzz.nightly.status import is_regression
from diffuzz.planning import Piece, Slicer
from diffuzz.slicing import Missing
from diffuzz.sources.commit import Commit
from diffuzz.sources.repository import Repository
from diffuzz.target import Target
from diffuzz.verdicts import digest, target_digest, tool_digest


@dataclass(frozen=True)
class Shard:
    """Part ``index`` (from 1) of ``count``; every piece of work belongs to exactly one."""

    index: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def owns(self, key: str) -> bool:
        """Whether the work named by a hexadecimal digest (or any text) is this shard's."""
        number = int.from_bytes(key.encode(), "big")
        return number % 1_000_003 % self.count == self.index - 1


@dataclass(frozen=True)
class Unit:
    """A target on an arch with an executor, as it is at the head of the branch."""

    target: Target
    arch: Arch
    executor: str
    piece: Piece | Missing

    @property
    def key(self) -> str:
        return f"{self.target.name}/{self.arch.name}/{self.executor}"

    @property
    def judge(self) -> str:
        """What judges it: diffuzz's own code, the target's, torch and Triton, as a digest. With
        another one, what was judged before is judged again."""
        return digest([tool_digest(), target_digest(self.target)])[:16]

    @property
    def hash(self) -> str | None:
        return None if isinstance(self.piece, Missing) else self.piece.slice.hash


@dataclass(frozen=True)
class Baseline:
    """A revision a unit was judged good at. ``note`` says what is unusual about the choice."""

    commit: Commit
    note: str = ""


@dataclass
class Slicers:
    """Slicers by commit, each made once."""

    repository: Repository
    made: dict[str, Slicer] = field(default_factory=dict)

    def at(self, commit: Commit) -> Slicer:
        if commit.sha not in self.made:
            self.made[commit.sha] = Slicer(self.repository.source(commit))
        return self.made[commit.sha]


def units(
    slicer: Slicer,
    targets: Sequence[str],
    archs: Sequence[str],
    executor: str,
    target_folders: tuple[str, ...],
) -> Iterator[Unit]:
    """Every target on each of its archs (or on ``archs``), sliced; nothing is built."""
    from diffuzz.executors.gpu import default_archs

    for name in targets or discovery.names(target_folders):
        target = discovery.load(name, target_folders)
        for arch_name in archs or default_archs(target, executor):
            arch = get_arch(arch_name)
            yield Unit(target, arch, executor, slicer.piece(target, arch))


def is_judged(
    unit: Data, slice_hash: str, shard: Shard | None = None, judge: str | None = None
) -> bool:
    """Whether a slice was run through: by ``shard``, or by all shards of some division; by
    ``judge``, if one is given."""
    done = {
        key
        for key, how in unit["judged"].get(slice_hash, {}).items()
        if how["done"] and judge in (None, how["judge"])
    }
    if shard is not None and str(shard) in done:
        return True
    counts = {int(key.partition("/")[2]) for key in done}
    return any(all(f"{i}/{n}" in done for i in range(1, n + 1)) for n in counts)


def is_good(unit: Data, slice_hash: str, findings: Sequence[Data], night: str) -> bool:
    """Whether a slice was run through and shows no regression. Findings that were there before
    watching began, or that the corpus accepts, do not count."""
    if not is_judged(unit, slice_hash):
        return False
    how = unit["judged"][slice_hash].values()
    if all(item["untestable"] for item in how):
        return False
    shown = {
        look["slice"]
        for finding in findings
        if is_regression(finding, night)
        for look in finding["looks"]
        if look["word"] in ("shown", "flaky")
    }
    return slice_hash not in shown


def baseline(
    unit: Data,
    findings: Sequence[Data],
    repository: Repository,
    head: Commit,
    given: str | None,
    night: str,
) -> Baseline | None:
    """The last revision judged good, or the one the user gives where the state has none.

    A branch that was rewritten may not hold it any more: then the newest good one that it does
    hold, else the place where the branch leaves the line of a good one. None: nothing to compare
    with.
    """
    good = [
        seen
        for slice_hash, seen in unit["seen"].items()
        if is_good(unit, slice_hash, findings, night)
    ]
    good.sort(key=lambda seen: (seen["night"], seen["date"]), reverse=True)
    known = [seen["commit"] for seen in good if repository.has(seen["commit"])]
    for commit in known:
        if repository.is_ancestor(commit, head.sha):
            note = "" if commit == good[0]["commit"] else _rewritten(good[0]["commit"])
            return Baseline(repository.commit(commit), note)
    for commit in known:
        try:
            parting = repository.merge_base(commit, head.sha)
        except DiffuzzError:
            continue
        return Baseline(repository.commit(parting), _rewritten(commit))
    if given is not None:
        return Baseline(repository.commit(given), f"{given} was given as good")
    return Baseline(head, _rewritten(good[0]["commit"])) if good else None


def _rewritten(commit: str) -> str:
    return f"the branch was rewritten: it does not hold {commit[:10]}, the last one judged good"
