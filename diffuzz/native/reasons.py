"""Why an op cannot be run from its source. Each text is one short, stable line."""

from __future__ import annotations

from diffuzz.errors import CannotTell


class NativeUnavailable(CannotTell):
    """Base: the machinery's limits, never a fault of the kernel."""


class ClosureError(NativeUnavailable):
    """The op cannot be followed to its source: ``missing op NAME`` or ``not emulatable: ...``."""


class NotEmulatable(NativeUnavailable):
    """The source needs what is not emulated on a CPU: ``not emulatable: ...``."""

    def __init__(self, what: str, detail: str = "") -> None:
        super().__init__(f"not emulatable: {what}")
        self.detail = detail


class NoCompiler(NativeUnavailable):
    """This machine has no C++ compiler, or not what it needs."""


_REFUSAL = "diffuzz: not emulatable: "


def refusal(message: str) -> str | None:
    """The reason in a RuntimeError that an emulated op raised when it met its limits, or None."""
    start = message.find(_REFUSAL)
    if start < 0:
        return None
    return "not emulatable: " + message[start + len(_REFUSAL) :].splitlines()[0].strip()
