"""Which executor this machine can use, and what its device is called."""

from __future__ import annotations

from diffuzz.errors import UsageError


def choose_executor(wanted: str) -> str:
    """``cpu`` or ``gpu``; :class:`UsageError` where a GPU is asked for and there is none."""
    if wanted == "cpu":
        return "cpu"
    import torch

    present = torch.cuda.is_available()
    if wanted == "gpu" and not present:
        raise UsageError("--executor gpu: torch sees no GPU here; use --executor cpu")
    return "gpu" if present else "cpu"


def device_name(executor: str) -> str | None:
    """The device's own name, or None for the CPU."""
    if executor != "gpu":
        return None
    import torch

    return str(torch.cuda.get_device_name())
