"""Operators written from their contract in plain torch.

They stand in for the revision's own code where no compiler is there, and are a second oracle
where one is. An op without a model stays missing: nothing is registered for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from diffuzz.arch import Arch
from diffuzz.native.op_models import kimi_k3
from diffuzz.native.op_models.options import Options
from diffuzz.native.schema import parameter_names, parse_op_name

__all__ = ["MODELS", "Options", "Registered", "register", "unmodelled"]

MODELS: Mapping[str, tuple[str, Callable[..., None]]] = {**kimi_k3.MODELS}
"""Op name (without namespace) to its default schema and the function that does its work."""


@dataclass
class Registered:
    """Op models that are live in this process until :meth:`close`."""

    names: tuple[str, ...]
    library: Any

    def close(self) -> None:
        self.library._destroy()


def unmodelled(names: Iterable[str], schemas: Mapping[str, str] | None = None) -> str | None:
    """Why the ops ``names`` cannot be modelled, as a stable reason, or None if they can.

    ``schemas`` are the revision's own; a parameter the model does not know is a reason too.
    """
    for name in names:
        if name not in MODELS:
            return f"missing op {name}"
        if schemas and name in schemas:
            known = set(parameter_names(MODELS[name][0]))
            for parameter in parameter_names(schemas[name]):
                if parameter not in known:
                    return f"new parameter {parameter}"
    return None


def register(
    arch: Arch,
    schemas: Mapping[str, str] | None = None,
    names: Iterable[str] | None = None,
    options: Options | None = None,
) -> Registered:
    """Define the ops in namespace ``_C`` and give them a CPU implementation for ``arch``.

    ``schemas`` maps op name to the revision's schema (``"NAME(Tensor q, ...) -> ()"``); the
    model's default is used for the rest. ``names`` limits what is registered (all by default).
    Raises :class:`ValueError` with :func:`unmodelled`'s reason.
    """
    schemas = schemas or {}
    chosen = tuple(MODELS if names is None else names)
    reason = unmodelled(chosen, schemas)
    if reason:
        raise ValueError(reason)
    new_library: Callable[..., Any] = torch.library.Library  # untyped in torch
    library = new_library("_C", "FRAGMENT")
    for name in chosen:
        schema = schemas.get(name, MODELS[name][0])
        assert parse_op_name(schema) == name, f"schema of {name} names another op: {schema}"
        library.define(schema)
        library.impl(name, _bound(name, schema, arch, options or Options()), "CPU")
    return Registered(chosen, library)


def _bound(name: str, schema: str, arch: Arch, options: Options) -> Callable[..., None]:
    """The model with the schema's argument order: the dispatcher passes arguments by position."""
    parameters = parameter_names(schema)
    function = MODELS[name][1]

    def call(*args: Any, **kwargs: Any) -> None:
        function(arch, options, **dict(zip(parameters, args, strict=False)), **kwargs)

    return call
