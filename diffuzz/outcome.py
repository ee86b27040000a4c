"""What running a case did. One type per way a run can end, so that a check is a type check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Location:
    """A place in vLLM's source at the revision under test."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Report:
    """A fault an executor observed while the run went on: its sanitizer's word.

    ``kind`` is a finding kind (``out-of-bounds``, ``race``, ``uninitialised``); ``argument`` is
    the tensor concerned; ``detail`` says which program touched which element.
    """

    kind: str
    message: str
    argument: str = ""
    location: Location | None = None
    program: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Returned:
    """The run ended. ``outputs`` holds every tensor the target judges, by name, on the CPU."""

    outputs: dict[str, Tensor]
    reports: tuple[Report, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Raised:
    """vLLM's code raised. ``location`` is the innermost frame inside vLLM's source."""

    type: str
    message: str
    location: Location | None
    source_line: str = ""

    @property
    def is_assertion(self) -> bool:
        return self.type == "AssertionError"


@dataclass(frozen=True)
class CompileFailed:
    """The compiler refused the kernel for this arch."""

    message: str
    location: Location | None = None


@dataclass(frozen=True)
class Crashed:
    """The worker died while it ran this case, twice, each time in a fresh process."""

    how: str
    log_tail: str = ""


@dataclass(frozen=True)
class TimedOut:
    """The case was still running at its time limit."""

    seconds: float


@dataclass(frozen=True)
class Unsupported:
    """Nothing can be said: the machinery, not the kernel, is the reason.

    ``reason`` is short and stable (it is counted): ``missing NAME``, ``unsupported op NAME``,
    ``new parameter NAME``, ``out of memory``, ``worker lost``.
    """

    reason: str


Outcome = Returned | Raised | CompileFailed | Crashed | TimedOut | Unsupported

# How reasons for "unknown" begin that another run, or another machine, may not have.
_MACHINERY = (
    *("worker", "out of memory", "executor failed", "device lost", "the device cannot be used"),
    *("torch sees no GPU", "native ops", "import failed"),
)


def is_machinery(reason: str) -> bool:
    """Whether a reason for "unknown" is the machine's and not the revision's: it may be gone the
    next time, so it is not remembered and proves no recovery."""
    return reason.startswith(_MACHINERY)
