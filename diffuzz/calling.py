"""Calling a slice whose signature changes over time: arguments go by parameter name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from diffuzz.errors import CannotTell


def call(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """Call ``function`` with those of ``known`` it has parameters for.

    A required parameter that is not known raises :class:`CannotTell` (``new parameter NAME``):
    a signature the target has not met is not a finding. A new parameter with a default keeps its
    default. Known values the function does not take are left out: it no longer needs them.
    """
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in known:
            arguments[name] = known[name]
        elif parameter.default is parameter.empty:
            raise CannotTell(f"new parameter {name}")
    return function(**arguments)
