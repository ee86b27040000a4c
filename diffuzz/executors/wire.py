"""What crosses the pipe between parent and worker: JSON headers and raw tensor bytes, no pickles.

A reply is one JSON header, then, for a run that returned, one block with the bytes of all outputs
in the header's order.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from diffuzz.outcome import (
    CompileFailed,
    Crashed,
    Location,
    Outcome,
    Raised,
    Report,
    Returned,
    TimedOut,
    Unsupported,
)

_TYPES = {t.__name__: t for t in (Raised, CompileFailed, Crashed, TimedOut, Unsupported)}


def _bytes_of(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _location(data: dict[str, Any] | None) -> Location | None:
    return None if data is None else Location(**data)


def send(connection: Connection, outcome: Outcome) -> None:
    """Write ``outcome`` to the pipe."""
    if not isinstance(outcome, Returned):
        failed = {"type": type(outcome).__name__, "fields": asdict(outcome)}
        connection.send_bytes(json.dumps(failed).encode())
        return
    blobs = [_bytes_of(tensor) for tensor in outcome.outputs.values()]
    header: dict[str, Any] = {
        "type": "Returned",
        "outputs": [
            {
                "name": name,
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "bytes": len(blob),
            }
            for (name, tensor), blob in zip(outcome.outputs.items(), blobs, strict=True)
        ],
        "reports": [asdict(report) for report in outcome.reports],
        "notes": outcome.notes,
        "seconds": outcome.seconds,
    }
    connection.send_bytes(json.dumps(header).encode())
    connection.send_bytes(b"".join(blobs) or b"\0")


@dataclass(frozen=True)
class Compiling:
    """A worker's word that a compiler is at work: its time is not the case's."""


def send_compiling(connection: Connection) -> None:
    """Tell the parent that a compile has started or ended."""
    connection.send_bytes(json.dumps({"type": "Compiling"}).encode())


def receive(connection: Connection) -> Outcome | Compiling:
    """Read one message from the pipe; ``EOFError`` where the other end is gone."""
    header = json.loads(connection.recv_bytes())
    if header["type"] == "Compiling":
        return Compiling()
    if header["type"] != "Returned":
        fields = header["fields"]
        if "location" in fields:
            fields["location"] = _location(fields["location"])
        outcome: Outcome = _TYPES[header["type"]](**fields)
        return outcome
    blob = bytearray(connection.recv_bytes())
    outputs: dict[str, Tensor] = {}
    at = 0
    for item in header["outputs"]:
        dtype = getattr(torch, item["dtype"])
        part = torch.frombuffer(blob, dtype=torch.uint8)[at : at + item["bytes"]]
        at += item["bytes"]
        # A copy, so that the view as a wider dtype is aligned.
        outputs[item["name"]] = part.clone().view(dtype).reshape(item["shape"])
    return Returned(
        outputs,
        reports=tuple(_report(report) for report in header["reports"]),
        notes=header["notes"],
        seconds=header["seconds"],
    )


def _report(data: dict[str, Any]) -> Report:
    program = data["program"]
    return Report(
        kind=data["kind"],
        message=data["message"],
        argument=data["argument"],
        location=_location(data["location"]),
        program=None if program is None else tuple(program),
    )
