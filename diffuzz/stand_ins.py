"""Source text of what the platform provides, for slices to import in its place.

Each function returns the whole text of one module. A name the text does not define stays
unresolved in the slice (``missing NAME``), so nothing here pretends to be more than it is.
"""

from __future__ import annotations

from diffuzz.arch import Arch, Vendor


def platforms(arch: Arch, vendor: Vendor | None = None) -> str:
    """``vllm.platforms`` for ``arch``.

    ``vendor`` is whose dispatch is under test when it is not the arch's own: a ROCm backend's
    kernels can run on an NVIDIA GPU, with that GPU's fp8 flavour, as long as the predicates say
    ROCm.
    """
    rocm = (vendor or arch.vendor) == "amd"
    major, minor = arch.capability
    return f"""\
import torch


class DeviceCapability(tuple):
    major = property(lambda self: self[0])
    minor = property(lambda self: self[1])

    def to_int(self):
        return self[0] * 10 + self[1]


class _Platform:
    device_type = "cuda"
    device_name = "{"rocm" if rocm else "cuda"}"
    simple_compile_backend = "eager"

    def is_rocm(self):
        return {rocm}

    def is_cuda(self):
        return {not rocm}

    def is_cuda_alike(self):
        return True

    def is_cpu(self):
        return False

    def is_xpu(self):
        return False

    def is_tpu(self):
        return False

    def fp8_dtype(self):
        return torch.float8_{arch.e4m3}

    def is_fp8_fnuz(self):
        return {arch.is_fnuz}

    def supports_fp8(self):
        return True

    def get_cu_count(self, device_id=0):
        return {arch.compute_units}

    def num_compute_units(self, device_id=0):
        return {arch.compute_units}

    def get_device_capability(self, device_id=0):
        return DeviceCapability(({major}, {minor}))

    def has_device_capability(self, capability, device_id=0):
        if isinstance(capability, tuple):
            return ({major}, {minor}) >= capability
        return {major * 10 + minor} >= capability

    def is_device_capability(self, capability, device_id=0):
        if isinstance(capability, tuple):
            return ({major}, {minor}) == capability
        return {major * 10 + minor} == capability

    def is_device_capability_family(self, capability, device_id=0):
        return {major} == capability // 10


current_platform = _Platform()
"""


def platform_utils(arch: Arch) -> str:
    """``vllm.utils.platform_utils``: the device queries a launcher sizes its grid by."""
    return f"""\
def num_compute_units(device_id=0):
    return {arch.compute_units}


def get_cu_count(device_id=0):
    return {arch.compute_units}
"""


def triton_utils() -> str:
    """``vllm.triton_utils`` where Triton is installed."""
    return """\
import triton
import triton.language as tl

HAS_TRITON = True
"""


def logger() -> str:
    """``vllm.logger``: loggers that accept vLLM's extra methods and say nothing."""
    return """\
class _Silent:
    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def init_logger(name):
    return _Silent()
"""
