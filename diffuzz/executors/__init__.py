"""How a slice is run. One protocol, adapters beside it, each in its own file.

An executor is chosen inside the worker process, before the slice is imported: it may have to put
its own launcher in the place of Triton's, or to register native operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from diffuzz.arch import Arch
from diffuzz.outcome import Report


class Executor(Protocol):
    """Prepares a worker process to run slices for one arch.

    ``device`` is the torch device inputs must be on. ``prepare`` is called once, before the slice
    is imported. ``begin`` is called before each case; ``reports`` after it, and returns what the
    executor observed since (sanitizer reports).
    """

    name: str
    device: str

    def prepare(self, arch: Arch) -> None: ...

    def begin(self) -> None: ...

    def reports(self) -> Sequence[Report]: ...
