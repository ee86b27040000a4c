"""A run as plain data: the JSON report, schema 1.

Two runs with the same seed, revisions and tool give the same data but for ``started``, the
``seconds`` fields and the folder a finding is kept in.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from diffuzz import __version__
from diffuzz.case import Axis
from diffuzz.finding import Finding, Measure, Verdict
from diffuzz.sources import Identity

if TYPE_CHECKING:  # torch comes with these, and a report is made without it
    from diffuzz.executors.native_ops import NativeOps
    from diffuzz.folding import JobResult

SCHEMA = 1


def environment(device: str | None = None) -> dict[str, Any]:
    """Versions of what took part, and the device when there is one."""
    versions: dict[str, str | None] = {}
    for package in ("torch", "triton", "hypothesis", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "diffuzz": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        "device": device,
        **versions,
    }


def revision(identity: Identity) -> dict[str, Any]:
    date = identity.date
    return {
        "revision": identity.revision,
        "commit": identity.commit,
        "version": identity.version,
        "date": None if date is None else date.isoformat(),
    }


def measure(value: Measure | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {k: _plain(v) for k, v in asdict(value).items()}


def _plain(value: object) -> Any:
    """JSON has no infinities or NaN: they are written as strings."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def finding(item: Finding, reproduce: str, axes: Sequence[Axis]) -> dict[str, Any]:
    """``axes`` are the target's: they say which values are off their default."""
    defect = item.defect
    location = defect.location
    explanation = defect.explanation
    return {
        "id": item.id,
        "kind": defect.kind.value,
        "direction": item.direction.value,
        "signature": defect.signature,
        "aspect": defect.aspect,
        "message": defect.message,
        "target": item.case.target,
        "arch": item.arch,
        "executor": item.executor,
        "case": {
            "id": item.case.id,
            **item.case.to_dict(),
            "off_default": [a.name for a in axes if item.case[a.name] != a.default],
        },
        "cases_hit": item.cases_hit,
        "measure": {
            "baseline": measure(item.baseline_measure),
            "candidate": measure(item.candidate_measure),
        },
        "explanation": None
        if explanation is None
        else {
            "hypothesis": explanation.hypothesis,
            "text": explanation.text,
            "share": explanation.share,
        },
        "location": None
        if location is None
        else {"file": location.file, "line": location.line, "function": location.function},
        "backends": list(item.reach),
        "follows": item.follows,
        "reproduce": reproduce,
    }


def target(result: JobResult, findings: list[dict[str, Any]]) -> dict[str, Any]:
    job = result.job
    return {
        "name": job.target.name,
        "arch": job.arch.name,
        "executor": job.executor,
        "slices": {"baseline": job.baseline.hash, "candidate": job.candidate.hash},
        "native": {
            "baseline": _native(job.baseline.native),
            "candidate": _native(job.candidate.native),
        },
        "cases": result.cases,
        "verdicts": {v.value: result.verdicts.get(v, 0) for v in Verdict},
        "unknown_reasons": dict(sorted(result.unknown_reasons.items())),
        "findings": findings,
        "seconds": round(result.seconds, 3),
    }


def _native(ops: NativeOps) -> dict[str, Any]:
    """What provided the native ops: the revision's source, or a model of their contract."""
    return {"ops": list(ops.names), "provider": ops.provider, "note": ops.note}


def untested_target(
    name: str, arch: str, executor: str, slices: dict[str, str | None], reason: str
) -> dict[str, Any]:
    """A target that could not be tested at all: no cases, and the reason counted once."""
    return {
        "name": name,
        "arch": arch,
        "executor": executor,
        "slices": slices,
        "cases": 0,
        "verdicts": {v.value: 0 for v in Verdict},
        "unknown_reasons": {reason: 1},
        "findings": [],
        "seconds": 0.0,
    }
