"""Finding files: ``findings/<id>.yaml``, which ``replay``, ``shrink`` and ``bisect`` take.

A case file is the same with ``target``, ``seed`` and ``values`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from diffuzz.case import Axis, Case, make_case
from diffuzz.errors import CaseError, UsageError

SCHEMA = 1
_MAX_BYTES = 1 << 20
_KNOWN = {
    "schema",
    "target",
    "seed",
    "values",
    "arch",
    "executor",
    "kind",
    "direction",
    "signature",
    "message",
    "baseline",
    "candidate",
    "id",
}


@dataclass(frozen=True)
class CaseFile:
    """What a case or finding file says. Fields a plain case lacks are None."""

    path: str
    target: str
    seed: int
    values: dict[str, Any]
    arch: str | None = None
    executor: str | None = None
    signature: str | None = None
    direction: str | None = None
    baseline: str | None = None
    candidate: str | None = None

    def case(self, axes: Sequence[Axis]) -> Case:
        """The validated case; :class:`CaseError` names the file and the field."""
        try:
            return make_case(self.target, axes, self.values, self.seed)
        except CaseError as error:
            raise CaseError(f"{self.path}: {error}") from None


def write_finding(path: Path, data: dict[str, Any], baseline: str, candidate: str) -> None:
    """Write the finding given as report data, for people to read and commands to take."""
    case = data["case"]
    document = {
        "schema": SCHEMA,
        "id": data["id"],
        "target": data["target"],
        "kind": data["kind"],
        "direction": data["direction"],
        "signature": data["signature"],
        "message": data["message"],
        "arch": data["arch"],
        "executor": data["executor"],
        "baseline": baseline,
        "candidate": candidate,
        "seed": case["seed"],
        "values": case["values"],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True))


def read_case_file(path: Path) -> CaseFile:
    """Read a case or finding file; :class:`UsageError` says where and what is wrong."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"{path}: larger than a case can be ({_MAX_BYTES} bytes)")
    try:
        document = yaml.safe_load(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"{error.problem_mark.line + 1}: "
        raise UsageError(f"{path}:{line}{error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    return _checked(path, document)


def _checked(path: Path, document: object) -> CaseFile:
    if not isinstance(document, dict):
        raise UsageError(f"{path}: a case file is a mapping with target, seed and values")
    unknown = sorted(str(key) for key in document if key not in _KNOWN)
    if unknown:
        raise UsageError(f"{path}: unknown field {unknown[0]!r}")
    if document.get("schema", SCHEMA) != SCHEMA:
        raise UsageError(f"{path}: schema {document['schema']!r} is not {SCHEMA}")
    values = document.get("values")
    if not isinstance(document.get("target"), str) or not isinstance(values, dict):
        raise UsageError(f"{path}: target (text) and values (mapping) are required")
    optional = {
        name: document.get(name)
        for name in ("arch", "executor", "signature", "direction", "baseline", "candidate")
    }
    for name, value in optional.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{path}: {name} is not text")
    return CaseFile(
        str(path),
        document["target"],
        document.get("seed", 0),
        {str(k): v for k, v in values.items()},
        **optional,
    )
