"""What Triton IR leaves open, as choices a caller can vary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Knobs:
    """``fp8_overflow``: what a cast to fp8 of a value above the largest finite one gives (NVIDIA
    hardware saturates, infinities included). ``masked_load``: what a masked-off lane of a load
    without ``other`` reads (hardware was measured to give 0). ``max_iterations`` bounds ``while``
    loops. ``races`` and ``views`` switch these checks. ``chunk_bytes`` is the size a single value
    may have: programs are run in groups small enough for it, at most ``max_programs`` at once.
    ``threads`` is torch's thread count while a kernel runs: its operations are small, and
    threads that wait for each other on a busy machine cost far more than they bring.
    ``autotune_config`` is the position of the configuration autotuned kernels run with.
    """

    fp8_overflow: Literal["saturate", "ieee"] = "saturate"
    masked_load: Literal["zero", "poison"] = "zero"
    max_iterations: int = 1 << 20
    races: bool = True
    views: bool = True
    chunk_bytes: int = 1 << 24
    max_programs: int = 1 << 15
    threads: int = 1
    autotune_config: int = 0
