"""How running a kernel can fail to produce a result."""

from __future__ import annotations

from diffuzz.outcome import Location


class Unsupported(Exception):
    """Nothing can be said about the kernel; ``reason`` is short and stable (it is counted)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CompileError(Exception):
    """Triton refused the kernel. ``location`` is the line in the kernel's own source."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location


class KernelFault(Exception):
    """The kernel stopped itself (``assertion``) or did not stop (``hang``), as on a GPU.

    ``program`` is the first program id ``(x, y, z)`` it happened in.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        location: Location | None,
        program: tuple[int, ...] | None = None,
    ) -> None:
        where = f" at {location}" if location else ""
        who = f" in program {program}" if program is not None else ""
        super().__init__(f"{message}{where}{who}")
        self.kind = kind
        self.message = message
        self.location = location
        self.program = program
