"""The same cases on two executors, compared bit by bit: a GPU as the judge of the CPU executors.

Both run the same slice of one revision for the same arch. Where bits differ, the target's own
error model says whether both are right all the same.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor

from diffuzz import oracles
from diffuzz.arch import Arch
from diffuzz.case import Case
from diffuzz.errors import CannotTell
from diffuzz.executors.pool import Worker, write_request
from diffuzz.executors.worker import Setup
from diffuzz.outcome import Outcome, Raised, Returned, Unsupported
from diffuzz.planning import Slicer
from diffuzz.slicing import Missing
from diffuzz.target import Target

_RAW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Row:
    """One output in one dtype over all cases.

    ``differing`` counts elements whose bits differ, NaNs left out that differ in their payload
    only (``nan_payload``). ``both_right`` counts the cases with a difference in which both are
    within the target's error model, ``one_wrong`` those in which one is; where neither is
    (``both_wrong``), the kernel is at fault, and what it gives may be chance. ``first`` shows one
    difference.
    ``max_ulp`` is the largest distance between two normal results, in representable values;
    ``at_ends`` counts differing elements where one is zero, subnormal, infinite or NaN.
    ``digest`` is of the second executor's bits in case order, all NaNs taken for one: what the
    first can be held to where there is no second.
    """

    output: str
    dtype: str
    cases: int = 0
    elements: int = 0
    differing: int = 0
    nan_payload: int = 0
    cases_differing: int = 0
    both_right: int = 0
    one_wrong: int = 0
    both_wrong: int = 0
    max_ulp: int = 0
    at_ends: int = 0
    first: dict[str, Any] | None = None
    digest: str = ""


@dataclass
class Crosscheck:
    """What comparing two executors came to. ``ends`` counts cases that did not return, by what
    either executor said; ``unlike`` those of them where the two said different things."""

    target: str
    arch: str
    executors: tuple[str, str]
    slice: str = ""
    cases: int = 0
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    unlike: list[dict[str, Any]] = field(default_factory=list)
    untested: str | None = None

    def to_dict(self) -> dict[str, Any]:
        rows = [asdict(self.rows[key]) for key in sorted(self.rows)]
        return {
            "target": self.target,
            "arch": self.arch,
            "executors": list(self.executors),
            "slice": self.slice,
            "cases": self.cases,
            "untested": self.untested,
            "rows": rows,
            "ends": dict(sorted(self.ends.items())),
            "unlike": self.unlike,
        }


@dataclass(frozen=True)
class Pairing:
    """What is compared: ``executors`` names two of :data:`diffuzz.executors.NAMES`."""

    target: Target
    arch: Arch
    executors: tuple[str, str]
    target_folders: tuple[str, ...] = ()
    time_limit: float = 120.0


def crosscheck(slicer: Slicer, pairing: Pairing, cases: Sequence[Case], lanes: int) -> Crosscheck:
    """Run ``cases`` on both executors in ``lanes`` pairs of workers and compare."""
    target, arch = pairing.target, pairing.arch
    found = Crosscheck(target.name, arch.name, pairing.executors)
    for case, pair in _outcomes(slicer, pairing, cases, lanes, found):
        found.cases += 1
        compare(found, target, arch, case, pair)
    return found


def _outcomes(
    slicer: Slicer, pairing: Pairing, cases: Sequence[Case], lanes: int, found: Crosscheck
) -> Iterator[tuple[Case, tuple[Outcome, Outcome]]]:
    piece = slicer.piece(pairing.target, pairing.arch)
    if isinstance(piece, Missing):
        found.untested = piece.reason
        return
    found.slice = piece.slice.hash
    try:
        natives = [slicer.native(piece, pairing.arch, name) for name in pairing.executors]
    except CannotTell as error:
        found.untested = error.reason
        return
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        piece.slice.write(scratch / "slice")
        free: SimpleQueue[list[Worker]] = SimpleQueue()
        for lane in range(lanes):
            setups = [
                Setup(
                    slice_dir=str(scratch / "slice"),
                    target=pairing.target.name,
                    target_folders=pairing.target_folders,
                    arch=pairing.arch.name,
                    executor=name,
                    native=native.to_dict(),
                    log=str(scratch / f"{name}-{side}-{lane}.log"),
                    memory_limit=0,
                )
                for side, (name, native) in enumerate(zip(pairing.executors, natives, strict=True))
            ]
            free.put([stack.enter_context(Worker(s, pairing.time_limit)) for s in setups])

        def one(case: Case) -> tuple[Case, tuple[Outcome, Outcome]]:
            workers = free.get()
            try:
                request = write_request(scratch / "cases", case)
                for worker in workers:
                    worker.submit(request)
                first, second = (worker.result(request) for worker in workers)
            finally:
                free.put(workers)
            return case, (first, second)

        with ThreadPoolExecutor(max_workers=lanes) as threads:
            yield from threads.map(one, cases)


def compare(
    found: Crosscheck, target: Target, arch: Arch, case: Case, pair: tuple[Outcome, Outcome]
) -> None:
    """Add what the two executors made of one case to ``found``."""
    first, second = pair
    if not (isinstance(first, Returned) and isinstance(second, Returned)):
        said = [_end(outcome) for outcome in pair]
        found.ends[said[0] if said[0] == said[1] else " | ".join(said)] += 1
        if said[0] != said[1]:
            found.unlike.append({"case": case.to_dict(), "ends": said})
        return
    differing = []
    for name in sorted({*first.outputs, *second.outputs}):
        ours, theirs = first.outputs.get(name), second.outputs.get(name)
        if ours is None or theirs is None or _form(ours) != _form(theirs):
            said = [f"{name}: {_form(t) if t is not None else 'absent'}" for t in (ours, theirs)]
            found.unlike.append({"case": case.to_dict(), "ends": said})
            continue
        key = (name, str(ours.dtype).removeprefix("torch."))
        row = found.rows.setdefault(key, Row(*key))
        if _count(row, case, ours, theirs):
            differing.append((name, row))
    if differing:
        expected = target.expected(case, arch, target.inputs(case, arch))
        judged = [oracles.judge(outcome, expected) for outcome in pair]
        for name, row in differing:
            right = [name in side.right for side in judged]
            row.both_right += all(right)
            row.one_wrong += right[0] != right[1]
            row.both_wrong += not any(right)


def _form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _end(outcome: Outcome) -> str:
    if isinstance(outcome, Returned):
        return "returned"
    if isinstance(outcome, Raised):
        return f"{outcome.type}: {outcome.message}"[:120]
    if isinstance(outcome, Unsupported):
        return f"unknown: {outcome.reason}"
    return f"{type(outcome).__name__}: {getattr(outcome, 'how', '')}".rstrip(": ")


def _normal(tensor: Tensor) -> Tensor:
    """Which elements of the flattened tensor are finite and at least the smallest normal number."""
    value = tensor.to(torch.float64).flatten()
    return value.isfinite() & (value.abs() >= torch.finfo(tensor.dtype).smallest_normal)


def _apart(raw: Sequence[Tensor], among: Tensor, width: int) -> int:
    """The most representable values that lie between two results."""
    codes = [r[among].to(torch.int64) & ((1 << width) - 1) for r in raw]
    magnitude = (1 << (width - 1)) - 1
    # Sign and magnitude to a count from zero: neighbours are one apart.
    counts = [torch.where(c > magnitude, -(c & magnitude), c) for c in codes]
    apart = (counts[0] - counts[1]).abs()
    return int(apart.max()) if apart.numel() else 0


def digest(tensor: Tensor, before: str = "") -> str:
    """Of a tensor's bits, every NaN taken for one, chained to the digest ``before``."""
    raw = tensor.contiguous().view(_RAW[tensor.element_size()])
    if tensor.dtype.is_floating_point:
        raw = raw.masked_fill(tensor.to(torch.float64).isnan(), -1 if raw.dtype.is_signed else 255)
    content = raw.flatten().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(before.encode() + content).hexdigest()


def _count(row: Row, case: Case, ours: Tensor, theirs: Tensor) -> bool:
    """Add one case's output to its row; whether any bits differ."""
    row.cases += 1
    row.elements += ours.numel()
    row.digest = digest(theirs, row.digest)
    raw = [t.contiguous().view(_RAW[t.element_size()]).flatten() for t in (ours, theirs)]
    unequal = raw[0] != raw[1]
    if ours.dtype.is_floating_point and bool(unequal.any()):
        nan = [t.to(torch.float64).isnan().flatten() for t in (ours, theirs)]
        both = unequal & nan[0] & nan[1]
        row.nan_payload += int(both.sum())
        unequal = unequal & ~both
        normal = _normal(ours) & _normal(theirs)
        row.max_ulp = max(row.max_ulp, _apart(raw, normal, 8 * ours.element_size()))
        row.at_ends += int((unequal & ~normal).sum())
    count = int(unequal.sum())
    row.differing += count
    row.cases_differing += bool(count)
    if count and row.first is None:
        at = int(unequal.nonzero()[0])
        values = [float(t.flatten()[at].to(torch.float64)) for t in (ours, theirs)]
        bits = [hex(int(r[at]) & ((1 << 8 * r.element_size()) - 1)) for r in raw]
        shown = [repr(v) for v in values]  # JSON has no NaN
        row.first = {"case": case.to_dict(), "index": at, "values": shown, "bits": bits}
    return bool(count)
