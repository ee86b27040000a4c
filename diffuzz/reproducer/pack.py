"""Tensors, inputs and right answers as text that a reproducer carries."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from diffuzz.errors import UsageError
from diffuzz.expected import Expected
from diffuzz.target import Expectation, Inputs

MAX_BYTES = 64 << 20
_WIDTH = 98


def pack(files: Mapping[str, str], inputs: Inputs, expected: Mapping[str, Expectation]) -> str:
    """Everything as lines of base64 of compressed JSON; :class:`UsageError` if it is too much."""
    content = {
        "files": dict(files),
        "inputs": {name: _input(name, value) for name, value in inputs.items()},
        "expected": {name: _expectation(value) for name, value in expected.items()},
    }
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    if len(text) > MAX_BYTES:
        raise UsageError(
            f"the case is too large for one file ({len(text):,} bytes): shrink it first"
        )
    coded = base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")
    return "\n".join(coded[at : at + _WIDTH] for at in range(0, len(coded), _WIDTH))


def _input(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return _tensor(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UsageError(f"the input {name} is a {type(value).__name__}, which a file cannot carry")


def _tensor(value: Tensor | None) -> dict[str, Any] | None:
    if value is None:
        return None
    plain = value.detach().cpu().contiguous()
    raw = bytes(plain.reshape(-1).view(torch.uint8).tolist()) if plain.numel() else b""
    return {
        "dtype": str(plain.dtype).removeprefix("torch."),
        "shape": list(plain.shape),
        "data": base64.b64encode(raw).decode("ascii"),
    }


def _expectation(value: Expectation) -> dict[str, Any]:
    if not isinstance(value, Expected):
        return {"format": None, "value": _tensor(value.bits), "care": _tensor(value.care)}
    return {
        "format": value.fmt.name,
        "overflow": value.overflow,
        "value": _tensor(value.value),
        "slack": _tensor(value.slack),
        "exact": _tensor(value.exact),
        "care": _tensor(value.care),
    }
