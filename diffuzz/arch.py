"""Architectures a slice can be run for: what differs between them as far as kernels can tell.

Sources: AMD CDNA3 ISA guide (gfx942: fp8 is FNUZ, wavefront 64), CDNA4 (gfx950: OCP fp8,
wavefront 64), OCP 8-bit floating point specification 1.0, CUDA C++ programming guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from diffuzz.errors import UsageError

Vendor = Literal["amd", "nvidia"]


@dataclass(frozen=True)
class Arch:
    """One GPU architecture.

    ``e4m3`` and ``e5m2`` name the flavours in :mod:`diffuzz.numerics.formats` that the hardware
    (and so the platform's fp8 dtype) uses. ``capability`` is what vLLM's platform reports as
    ``(major, minor)``, ``compute_units`` its number of compute units or multiprocessors (MI300X,
    MI355X, H100 SXM, B200). ``triton_backend``, ``triton_arch`` and ``warp_size`` make Triton's
    ``GPUTarget``.
    """

    name: str
    vendor: Vendor
    warp_size: int
    e4m3: str
    e5m2: str
    capability: tuple[int, int]
    compute_units: int
    triton_backend: str
    triton_arch: str | int

    @property
    def is_fnuz(self) -> bool:
        return self.e4m3.endswith("fnuz")


ARCHS: dict[str, Arch] = {
    a.name: a
    for a in (
        Arch("gfx942", "amd", 64, "e4m3fnuz", "e5m2fnuz", (9, 4), 304, "hip", "gfx942"),
        Arch("gfx950", "amd", 64, "e4m3fn", "e5m2", (9, 5), 256, "hip", "gfx950"),
        Arch("sm90", "nvidia", 32, "e4m3fn", "e5m2", (9, 0), 132, "cuda", 90),
        Arch("sm100", "nvidia", 32, "e4m3fn", "e5m2", (10, 0), 148, "cuda", 100),
    )
}


def get_arch(name: str) -> Arch:
    """Return the architecture called ``name``; :class:`UsageError` names the known ones."""
    try:
        return ARCHS[name]
    except KeyError:
        raise UsageError(f"unknown arch {name!r}; known: {', '.join(ARCHS)}") from None
