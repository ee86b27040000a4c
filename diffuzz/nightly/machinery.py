"""What is the machine's fault and not the kernel's, and which device of it failed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diffuzz.errors import UsageError
from diffuzz.outcome import is_machinery

_DEVICE = ("device lost", "the device cannot be used", "torch sees no GPU")
# A night's results on a slice count only if fewer of its cases than this were lost.
LOST_SHARE = 0.1
# One lost context may be the kernel's doing; this many in one night are the device's.
LOST_DEVICE = 2
VARIABLES = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_PROBE = """
import torch
one = torch.ones(1 << 20, device="cuda")
assert float((one + one).sum()) == 1 << 21, "sums wrong"
torch.cuda.synchronize()
print(torch.cuda.get_device_name())
"""
_PROBE_SECONDS = 120


@dataclass(frozen=True)
class Device:
    """A device the night may use: its number, and what the probe said of it."""

    number: str
    name: str = ""
    problem: str | None = None

    def __str__(self) -> str:
        return f"device {self.number}" + (f" ({self.name})" if self.name else "")


def lost(reasons: Mapping[str, int]) -> int:
    """Of cases counted by reason, those that machinery lost."""
    return sum(count for reason, count in reasons.items() if is_machinery(reason))


def device_failed(reasons: Mapping[str, int]) -> str | None:
    """The reason for which the device must be taken out of the night, if there is one."""
    failed = {r: n for r, n in reasons.items() if r.startswith(_DEVICE)}
    if sum(failed.values()) < LOST_DEVICE:
        return None
    return max(failed, key=lambda reason: (failed[reason], reason))


def choose_device(numbers: Sequence[str], shard_index: int) -> tuple[Device | None, list[Device]]:
    """The first device that works, starting at the shard's own, and those that do not.

    Each is tried in a process of its own that sees no other. Must run before torch is imported.
    """
    start = (shard_index - 1) % len(numbers)
    failed: list[Device] = []
    for number in (*numbers[start:], *numbers[:start]):
        device = _probe(number)
        if device.problem is None:
            return device, failed
        failed.append(device)
    return None, failed


def parse_devices(text: str) -> list[str]:
    """``0,1,3`` as numbers; :class:`UsageError` for anything else."""
    numbers = text.split(",")
    if not all(number.isdigit() for number in numbers):
        raise UsageError(f"--devices {text!r}: not numbers with commas, such as 0,1,2,3")
    return numbers


def show_only(number: str) -> None:
    """Let this process and its workers see one device."""
    for name in VARIABLES:
        os.environ[name] = number


def visible() -> str | None:
    """What the environment says of the devices this process may see."""
    return next((f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ), None)


def _probe(number: str) -> Device:
    environment = {**os.environ, **dict.fromkeys(VARIABLES, number)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return Device(number, problem=f"no answer in {_PROBE_SECONDS} s")
    if done.returncode == 0:
        return Device(number, done.stdout.strip())
    said = done.stderr.strip().splitlines()
    return Device(number, problem=said[-1][:200] if said else f"exit code {done.returncode}")
