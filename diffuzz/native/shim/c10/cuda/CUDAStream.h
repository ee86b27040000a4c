// For ops written against torch's plain C++ API: what they ask of CUDA's side of torch, for the
// host. Kernels run where they are launched, one after the other.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace c10::cuda {
struct CUDAStream {
  cudaStream_t stream() const { return nullptr; }
  operator cudaStream_t() const { return nullptr; }
};
inline CUDAStream getCurrentCUDAStream(int64_t = -1) { return {}; }
struct CUDAGuard {
  template <class... A>
  explicit CUDAGuard(A&&...) {}
};
using OptionalCUDAGuard = CUDAGuard;
}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::OptionalCUDAGuard;
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  return &properties;
}
inline cudaDeviceProp* getDeviceProperties(int64_t) { return getCurrentDeviceProperties(); }
}  // namespace at::cuda

#define C10_CUDA_CHECK(call) \
  TORCH_CHECK((call) == cudaSuccess, "CUDA error: invalid configuration argument")
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
