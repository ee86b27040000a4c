// What CUDA C++ and HIP offer in device code, for the host. After diffuzz_runtime.h.
#pragma once

#include <algorithm>
#include <cmath>

#include "diffuzz_runtime.h"

using std::max;
using std::min;

// Block and warp operations. Each notes where it is called from.
inline void __syncthreads(DIFFUZZ_HERE) { ::diffuzz::block_barrier(false, DIFFUZZ_WHERE); }
inline int __syncthreads_count(int p, DIFFUZZ_HERE) {
  return ::diffuzz::block_barrier(p != 0, DIFFUZZ_WHERE);
}
inline int __syncthreads_or(int p, DIFFUZZ_HERE) {
  return ::diffuzz::block_barrier(p != 0, DIFFUZZ_WHERE) != 0;
}
inline int __syncthreads_and(int p, DIFFUZZ_HERE) {
  return ::diffuzz::block_barrier(p == 0, DIFFUZZ_WHERE) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, DIFFUZZ_HERE) {
  int nothing = 0;
  ::diffuzz::warp_operation(::diffuzz::Op::kSync, mask, &nothing, sizeof(nothing), 0,
                            DIFFUZZ_WHERE);
}

#define DIFFUZZ_SHUFFLE(NAME, TYPE, SOURCE)                                                     \
  template <class T>                                                                            \
  T NAME##_sync(uint64_t mask, T value, TYPE by, int width = DIFFUZZ_WARP, DIFFUZZ_HERE) {      \
    return ::diffuzz::shuffle(mask, value, ::diffuzz::SOURCE(by, width), DIFFUZZ_WHERE);        \
  }                                                                                             \
  template <class T>                                                                            \
  T NAME(T value, TYPE by, int width = DIFFUZZ_WARP, DIFFUZZ_HERE) {                            \
    return ::diffuzz::shuffle(::diffuzz::kNoMask, value, ::diffuzz::SOURCE(by, width),          \
                              DIFFUZZ_WHERE);                                                   \
  }
DIFFUZZ_SHUFFLE(__shfl, int, lane_indexed)
DIFFUZZ_SHUFFLE(__shfl_up, unsigned, lane_up)
DIFFUZZ_SHUFFLE(__shfl_down, unsigned, lane_down)
DIFFUZZ_SHUFFLE(__shfl_xor, int, lane_xor)
#undef DIFFUZZ_SHUFFLE

#if DIFFUZZ_WARP == 32
using diffuzz_ballot_t = unsigned;
#else
using diffuzz_ballot_t = unsigned long long;
#endif
inline diffuzz_ballot_t __ballot_sync(uint64_t mask, int p, DIFFUZZ_HERE) {
  return static_cast<diffuzz_ballot_t>(::diffuzz::ballot(mask, p != 0, DIFFUZZ_WHERE));
}
inline diffuzz_ballot_t __ballot(int p, DIFFUZZ_HERE) {
  return static_cast<diffuzz_ballot_t>(::diffuzz::ballot(::diffuzz::kNoMask, p != 0,
                                                         DIFFUZZ_WHERE));
}
inline diffuzz_ballot_t __activemask(DIFFUZZ_HERE) {
  return static_cast<diffuzz_ballot_t>(::diffuzz::ballot(::diffuzz::kNoMask, true,
                                                         DIFFUZZ_WHERE));
}
inline int __any_sync(uint64_t mask, int p, DIFFUZZ_HERE) {
  return ::diffuzz::ballot(mask, p != 0, DIFFUZZ_WHERE) != 0;
}
inline int __all_sync(uint64_t mask, int p, DIFFUZZ_HERE) {
  return ::diffuzz::ballot(mask, p == 0, DIFFUZZ_WHERE) == 0;
}

// Memory.
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T value) {
  *p = value;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
#define DIFFUZZ_ATOMIC(NAME, RESULT) \
  template <class T, class V>        \
  T NAME(T* p, V v) {                \
    T const old = *p, value = v;     \
    *p = RESULT;                     \
    return old;                      \
  }
DIFFUZZ_ATOMIC(atomicAdd, old + value)
DIFFUZZ_ATOMIC(atomicSub, old - value)
DIFFUZZ_ATOMIC(atomicMax, std::max(old, value))
DIFFUZZ_ATOMIC(atomicMin, std::min(old, value))
DIFFUZZ_ATOMIC(atomicExch, value)
DIFFUZZ_ATOMIC(atomicAnd, old & value)
DIFFUZZ_ATOMIC(atomicOr, old | value)
#undef DIFFUZZ_ATOMIC
template <class T>
T atomicCAS(T* p, T expected, T value) {
  T const old = *p;
  if (old == expected) *p = value;
  return old;
}

// Arithmetic. Division and square root are correctly rounded here as they are on the device
// without fast-math; the approximate intrinsics are refused.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline unsigned __float_as_uint(float x) {
  unsigned r;
  std::memcpy(&r, &x, sizeof(r));
  return r;
}
inline int __float_as_int(float x) { return static_cast<int>(__float_as_uint(x)); }
inline float __uint_as_float(unsigned x) {
  float r;
  std::memcpy(&r, &x, sizeof(r));
  return r;
}
inline float __int_as_float(int x) { return __uint_as_float(static_cast<unsigned>(x)); }
#define DIFFUZZ_APPROXIMATE(NAME)                              \
  inline float NAME(float) { ::diffuzz::refuse(#NAME); }
DIFFUZZ_APPROXIMATE(__expf)
DIFFUZZ_APPROXIMATE(__logf)
DIFFUZZ_APPROXIMATE(__frcp_rn)
DIFFUZZ_APPROXIMATE(__frsqrt_rn)
#undef DIFFUZZ_APPROXIMATE
inline float __fdividef(float, float) { ::diffuzz::refuse("__fdividef"); }
[[noreturn]] inline void __trap() { ::diffuzz::refuse("__trap"); }

// Programmatic dependent launch: kernels run one after the other here.
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

template <class... P, class... A>
cudaError_t diffuzz_launch_kernel_ex(const cudaLaunchConfig_t* c, void (*kernel)(P...), A&&... a) {
  ::diffuzz::Launch const launch(c->gridDim, c->blockDim, c->dynamicSmemBytes, nullptr);
  return launch.run(kernel, static_cast<A&&>(a)...) ? cudaSuccess : cudaErrorInvalidConfiguration;
}
#define cudaLaunchKernelEx diffuzz_launch_kernel_ex
#define cudaFuncSetAttribute(...) cudaSuccess

// Memory that threads share is not emulated: the first thread to reach a declaration says so.
// What asks for its size at launch (extern) does not even compile.
#undef __shared__
#define __shared__ ::diffuzz::refuse("__shared__ memory"); static
#ifndef __launch_bounds__
  #define __launch_bounds__(...)
#endif
#ifndef __restrict__
  #define __restrict__ __restrict
#endif
