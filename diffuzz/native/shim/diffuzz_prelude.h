// Comes first in every translation unit: torch's and CUDA's headers as ordinary host code, then
// the device's builtins, then the macros that make the kernel's source see its architecture.
#pragma once

#ifdef DIFFUZZ_STABLE_ABI
  #include <torch/csrc/inductor/aoti_torch/c/shim.h>
  #include <torch/csrc/stable/accelerator.h>
  #include <torch/csrc/stable/library.h>
  #include <torch/csrc/stable/ops.h>
  #include <torch/csrc/stable/tensor.h>
  #include <torch/headeronly/core/Dispatch.h>
  #include <torch/headeronly/core/ScalarType.h>
  #include <torch/headeronly/util/shim_utils.h>
#else
  #include <torch/all.h>
  #include <torch/library.h>
#endif

#include <cuda_runtime.h>

#include <cassert>
#include <cfloat>

#ifndef DIFFUZZ_HIP
  #include <cuda.h>
  #include <cuda_bf16.h>
  #include <cuda_fp16.h>
  #include <cuda_fp8.h>
#endif

#include "diffuzz_half.h"
#include "diffuzz_device.h"

#ifdef DIFFUZZ_HIP
  #include <hip/hip_runtime.h>
#else
// CUDA's headers have these two for the device only; one rounding, as its fma.rn.bf16.
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  double const exact = static_cast<double>(__bfloat162float(a)) * __bfloat162float(b);
  return __double2bfloat16(exact + __bfloat162float(c));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
#endif

#ifdef DIFFUZZ_STABLE_ABI
// What torch's stable ABI has for CUDA builds of torch only.
inline AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
  *stream = nullptr;
  return AOTI_TORCH_SUCCESS;
}
inline AOTITorchError torch_get_current_cuda_blas_handle(void**) {
  ::diffuzz::refuse("cuBLAS");
}
namespace torch::stable::accelerator {
struct DiffuzzDeviceGuard {
  template <class... A>
  explicit DiffuzzDeviceGuard(A&&...) {}
};
}  // namespace torch::stable::accelerator
  #define DeviceGuard DiffuzzDeviceGuard
#endif

#ifdef DIFFUZZ_HIP
  #define USE_ROCM 1
  #define __HIP_PLATFORM_AMD__ 1
  #define __GFX9__ 1
#else
  #define __CUDA_ARCH__ (DIFFUZZ_CAPABILITY * 10)
#endif
