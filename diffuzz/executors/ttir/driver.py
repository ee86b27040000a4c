"""A Triton driver that answers for a device that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from triton.backends.compiler import GPUTarget

from diffuzz.arch import Arch

_SHARED_MEMORY = {"gfx942": 65536, "gfx950": 163840, "sm90": 232448, "sm100": 232448}
_PROCESSORS = {"gfx942": 304, "gfx950": 256, "sm90": 132, "sm100": 148}


class _Properties:
    def __init__(self, arch: Arch) -> None:
        self.arch = arch

    def get_device_properties(self, device: int) -> dict[str, Any]:
        return {
            "max_shared_mem": _SHARED_MEMORY[self.arch.name],
            "multiprocessor_count": _PROCESSORS[self.arch.name],
            "warpSize": self.arch.warp_size,
            "arch": str(self.arch.triton_arch),
            "max_num_regs": 65536,
        }


class CpuDriver:
    """What Triton and its launchers ask the active driver, for the given architecture."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.utils = _Properties(arch)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget(self.arch.triton_backend, self.arch.triton_arch, self.arch.warp_size)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cpu

    def get_benchmarker(self) -> Callable[..., list[float]]:
        return lambda call, **options: [0.0, 0.0, 0.0]

    def map_python_to_cpp_type(self, name: str) -> str:
        return name
