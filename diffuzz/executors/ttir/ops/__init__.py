"""One function per operation of Triton IR, by subject."""

from diffuzz.executors.ttir.ops import (
    access,
    atomics,
    casts,
    control,
    dot,
    effects,
    floats,
    integers,
    reduce,
    shapes,
    sources,
)
from diffuzz.executors.ttir.ops.registry import STEPS

__all__ = [
    "STEPS",
    "access",
    "atomics",
    "casts",
    "control",
    "dot",
    "effects",
    "floats",
    "integers",
    "reduce",
    "shapes",
    "sources",
]
