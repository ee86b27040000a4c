"""Operator schemas as vLLM's bindings write them: ``NAME(Tensor! q, int n=1) -> ()``."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Parameter:
    """``type`` is torch's name without alias marks: ``Tensor``, ``Optional[Tensor]``, ``int``."""

    name: str
    type: str
    written: bool


@dataclass(frozen=True)
class Schema:
    name: str
    parameters: tuple[Parameter, ...]
    returns: tuple[str, ...]


def parse_schema(text: str) -> Schema:
    """Parse a schema without namespace; :class:`ValueError` in torch's words if it is not one."""
    try:
        parsed = torch._C.parse_schema("_C::" + text.strip())
    except RuntimeError as error:
        raise ValueError(f"schema {text.strip()[:80]!r}: {str(error).splitlines()[0]}") from None
    parameters = tuple(
        Parameter(a.name, str(a.type), bool(a.alias_info is not None and a.alias_info.is_write))
        for a in parsed.arguments
    )
    return Schema(
        parsed.name.removeprefix("_C::"), parameters, tuple(str(r.type) for r in parsed.returns)
    )


def parse_op_name(text: str) -> str:
    return text.strip().partition("(")[0].strip()


def parameter_names(text: str) -> tuple[str, ...]:
    return tuple(p.name for p in parse_schema(text).parameters)
