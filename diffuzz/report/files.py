"""Finding files: ``findings/<id>.yaml``, which ``replay``, ``shrink`` and ``bisect`` take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffuzz.casefile import CaseFile, read_case_file, write_case_file

__all__ = ["CaseFile", "read_case_file", "write_finding"]


def write_finding(path: Path, data: dict[str, Any], baseline: str, candidate: str) -> None:
    """Write the finding given as report data, for people to read and commands to take."""
    case = data["case"]
    names = ("id", "target", "kind", "direction", "signature", "message", "arch", "executor")
    file = CaseFile(
        str(path),
        seed=case["seed"],
        values=case["values"],
        baseline=baseline,
        candidate=candidate,
        **{name: data[name] for name in names},
    )
    write_case_file(path, file)
