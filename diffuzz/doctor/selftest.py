"""Kernels of diffuzz's own, run as a campaign runs a slice's, and their results checked.

``python -m diffuzz.doctor.selftest (cpu|gpu|native)`` prints one line; exit code 0 if all is well.
"""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl

from diffuzz.arch import Arch, get_arch
from diffuzz.errors import CannotTell
from diffuzz.executors import create
from diffuzz.executors.native_ops import NativeOps, Provided, plan
from diffuzz.native.closure import find_closure
from diffuzz.numerics.formats import E4M3FN, decode, round_to
from diffuzz.sources import Identity

_BINDINGS = """
STABLE_TORCH_LIBRARY_FRAGMENT(_C, ops) {
  ops.def("diffuzz_selftest(Tensor x, Tensor! out) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(_C, CUDA, ops) {
  ops.impl("diffuzz_selftest", TORCH_BOX(&diffuzz_selftest));
}
"""
_KERNEL = """
#include <torch/csrc/stable/tensor.h>
#include <cuda_runtime.h>
__global__ void halves(const float* x, float* out, int n) {
  int const at = blockIdx.x * blockDim.x + threadIdx.x;
  float const other = __shfl_xor_sync(0xffffffffu, x[at], 1, 32);
  if (at < n) out[at] = x[at] * 0.5f + other * 0.0f;
}
void diffuzz_selftest(torch::stable::Tensor const& x, torch::stable::Tensor& out) {
  int const n = static_cast<int>(x.numel());
  halves<<<n / 32, 32>>>(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), n);
}
"""
_FILES = {"csrc/torch_bindings.cpp": _BINDINGS, "csrc/diffuzz_selftest.cu": _KERNEL}


class _Sample:
    """A revision that holds nothing but the native kernel above."""

    identity = Identity("self-test")

    def read(self, path: str) -> str | None:
        return _FILES.get(path)

    def exists(self, path: str) -> bool:
        return path in _FILES

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in _FILES if path.startswith(f"{prefix}/"))

    def blob_id(self, path: str) -> str | None:
        return path if path in _FILES else None


@triton.jit  # type: ignore[untyped-decorator]
def _quantise(x, out, n, scale, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    value = tl.load(x + at, mask=at < n) * scale
    tl.store(out + at, value.to(tl.float8e4nv), mask=at < n)


def triton_kernel(executor: str, arch: Arch) -> str:
    """Quantise to fp8 with a Triton kernel; what was wrong, empty if nothing."""
    runner = create(executor)
    runner.prepare(arch, NativeOps())
    x = torch.linspace(-3.0, 3.0, 1000, dtype=torch.float32).to(runner.device)
    out = torch.empty(1000, dtype=torch.float8_e4m3fn, device=x.device)
    runner.begin()
    _quantise[(4,)](x, out, 1000, 2.0, 256)
    if reports := runner.reports():
        return reports[0].message
    truth = round_to(x.cpu().to(torch.float64) * 2.0, E4M3FN, "saturate")
    wrong = int((decode(out.cpu().view(torch.uint8), E4M3FN) != truth).sum())
    return f"{wrong} of 1000 results are wrong" if wrong else ""


def native_kernel(arch: Arch) -> str:
    """Build a CUDA kernel for the host and run it; what was wrong, empty if nothing."""
    closure = find_closure(_Sample(), ["diffuzz_selftest"], rocm=False)
    live = Provided(plan(closure, arch), arch)
    x = torch.arange(64, dtype=torch.float32)
    out = torch.empty(64)
    torch.ops._C.diffuzz_selftest(x, out)
    if reports := live.reports():
        return reports[0].message
    return "" if torch.equal(out, x * 0.5) else "the results are wrong"


def main(what: str) -> int:
    arch = get_arch("sm90")
    try:
        if what == "gpu":
            from diffuzz.executors.gpu import present_arch

            arch = get_arch(present_arch() or "")
        wrong = native_kernel(arch) if what == "native" else triton_kernel(what, arch)
    except CannotTell as error:
        wrong = error.reason
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    print(wrong or "right")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
