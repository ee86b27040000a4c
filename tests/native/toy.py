"""A revision of our own in the layout that native ops have: bindings, header, one kernel.

``toy_insert`` quantizes rows of 64 float32 to fp8 with a scale per row and puts them into a paged
cache at their slots; a negative slot is skipped.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from diffuzz.arch import get_arch
from diffuzz.native import build_cpu
from diffuzz.native.closure import Closure, find_closure
from diffuzz.sources.directory import DirectorySource

OP = "toy_insert"
PAGES, BLOCK, WIDTH = 3, 4, 64

BINDINGS = """
#include "ops.h"
// ops.def("commented_out(Tensor x) -> ()");
STABLE_TORCH_LIBRARY_FRAGMENT(_C, ops) {
  ops.def(
      "toy_insert(Tensor x, Tensor! cache, Tensor! scales, Tensor slots, "
      "float gain) -> ()");
  ops.def("declared_only(Tensor x) -> ()");
#ifndef USE_ROCM
  ops.def("nvidia_only(Tensor x) -> Tensor");
#endif
}
STABLE_TORCH_LIBRARY_IMPL(_C, CUDA, ops) {
  ops.impl("toy_insert", TORCH_BOX(&toy::toy_insert));
#ifndef USE_ROCM
  ops.impl("nvidia_only", TORCH_BOX(&toy::nvidia_only));
#endif
}
"""

HEADER = """
#pragma once
#include <torch/csrc/stable/tensor.h>
namespace toy {
void toy_insert(torch::stable::Tensor const& x, torch::stable::Tensor& cache,
                torch::stable::Tensor& scales, torch::stable::Tensor const& slots, double gain);
torch::stable::Tensor nvidia_only(torch::stable::Tensor const& x);
}
"""

LANES = """
#pragma once
__device__ __forceinline__ float warp_max(float v) {
  for (int step = 16; step > 0; step /= 2) {
#ifdef USE_ROCM
    v = fmaxf(v, __shfl_xor(v, step, 32));
#else
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step, 32));
#endif
  }
  return v;
}
"""

KERNEL = """
#include "../lanes.cuh"
#include "../ops.h"
#include <cfloat>
#ifdef USE_ROCM
  #include <hip/hip_fp8.h>
#else
  #include <cuda_fp8.h>
#endif
#include <cuda_runtime.h>
namespace toy {
#if defined(USE_ROCM) && defined(__gfx942__)
constexpr float kLimit = 240.0f;
#else
constexpr float kLimit = 448.0f;
#endif
__device__ uint8_t to_fp8(float v) {
  v = fminf(fmaxf(v, -kLimit), kLimit);
#if defined(USE_ROCM) && defined(__gfx942__)
  return __hip_cvt_float_to_fp8(v, __HIP_NOSAT, __HIP_E4M3_FNUZ);
#elif defined(USE_ROCM)
  return __hip_cvt_float_to_fp8(v, __HIP_NOSAT, __HIP_E4M3);
#else
  return __nv_cvt_float_to_fp8(v, __NV_NOSAT, __NV_E4M3);
#endif
}
__global__ void insert_kernel(const float* x, int64_t x_stride, uint8_t* cache,
                              int64_t page_stride, int64_t row_stride, int block_size,
                              float* scales, const int64_t* slots, float gain, int tokens) {
  int const token = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int const lane = threadIdx.x % 32;
  if (token >= tokens) return;
  int64_t const slot = slots[token];
  if (slot < 0) return;
  float2 const v = *reinterpret_cast<const float2*>(x + token * x_stride + lane * 2);
  float const largest = warp_max(fmaxf(fabsf(v.x), fabsf(v.y)));
  float const scale = fmaxf(largest / kLimit, FLT_MIN);
  if (lane == 0) scales[token] = scale;
  uint8_t* row = cache + slot / block_size * page_stride + slot % block_size * row_stride;
  row[lane * 2] = to_fp8(v.x * gain / scale);
  row[lane * 2 + 1] = to_fp8(v.y * gain / scale);
}
void toy_insert(torch::stable::Tensor const& x, torch::stable::Tensor& cache,
                torch::stable::Tensor& scales, torch::stable::Tensor const& slots, double gain) {
  STD_TORCH_CHECK(x.device().is_cuda() && x.size(1) == 64, "x must have shape [tokens, 64]");
  int const tokens = static_cast<int>(x.size(0));
  insert_kernel<<<(tokens + 3) / 4, 128>>>(
      x.const_data_ptr<float>(), x.stride(0), cache.mutable_data_ptr<uint8_t>(),
      cache.stride(0), cache.stride(1), static_cast<int>(cache.size(1)),
      scales.mutable_data_ptr<float>(), slots.const_data_ptr<int64_t>(),
      static_cast<float>(gain), tokens);
}
}  // namespace toy
"""

FILES = {
    "csrc/torch_bindings.cpp": BINDINGS,
    "csrc/ops.h": HEADER,
    "csrc/lanes.cuh": LANES,
    "csrc/toy/insert_kernel.cu": KERNEL,
    "csrc/cpu/torch_bindings.cpp": BINDINGS.replace("Tensor x", "Tensor cpu"),
}
KERNEL_PATH = "csrc/toy/insert_kernel.cu"


def revision(folder: Path, files: dict[str, str] | None = None) -> DirectorySource:
    """A working tree with ``files`` (:data:`FILES` by default)."""
    for path, text in {"vllm/__init__.py": "", **(files or FILES)}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return DirectorySource(folder)


def mutated(old: str, new: str, path: str = KERNEL_PATH) -> dict[str, str]:
    """:data:`FILES` with one change; the text must be there once."""
    assert FILES[path].count(old) == 1
    return {**FILES, path: FILES[path].replace(old, new)}


def closure_of(folder: Path, files: dict[str, str] | None = None, rocm: bool = False) -> Closure:
    return find_closure(revision(folder, files), [OP], rocm=rocm)


def build(folder: Path, arch: str, files: dict[str, str] | None = None, **options: bool):
    closure = closure_of(folder, files, get_arch(arch).vendor == "amd")
    return build_cpu.build(closure, get_arch(arch), **options)


def line_of(text: str, path: str = KERNEL_PATH) -> int:
    """Line number of the only line of a file that holds ``text``."""
    (found,) = [n for n, line in enumerate(FILES[path].splitlines(), 1) if text in line]
    return found


SCRIPT = """
import sys, torch
from pathlib import Path
from diffuzz.native import build_cpu, sanitize
library, request, reply = sys.argv[1:]
loaded = build_cpu.LoadedLibrary(Path(library))
data = torch.load(request)
cache = data["cache"].clone()[:, :data["block"], :64]
scales = torch.zeros(len(data["slots"]))
spans = [(cache[page, row].data_ptr(), 64) for page, row in data["poison"]]
import contextlib
with sanitize.poisoned_spans(spans) if spans else contextlib.nullcontext():
    torch.ops._C.toy_insert(data["x"], cache, scales, data["slots"], data["gain"])
torch.save({"cache": cache.clone(), "scales": scales, "reports": loaded.take_reports()}, reply)
"""


def run(
    built: build_cpu.BuiltLibrary,
    folder: Path,
    slots: list[int],
    *,
    gain: float = 1.0,
    poison: list[tuple[int, int]] | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[dict, dict, str]:
    """(request, reply, stderr) of a process that runs the op once."""
    g = torch.Generator().manual_seed(1)
    request = {
        "x": torch.randn(len(slots), WIDTH, generator=g),
        "cache": torch.full((PAGES, BLOCK + 1, WIDTH + 16), 0x55, dtype=torch.uint8),
        "slots": torch.tensor(slots),
        "gain": gain,
        "block": BLOCK,
        "poison": poison or [],
    }
    torch.save(request, folder / "request.pt")
    reply = folder / "reply.pt"
    reply.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(built.path), str(folder / "request.pt"), str(reply)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert reply.is_file(), done.stderr
    return request, torch.load(reply), done.stderr
