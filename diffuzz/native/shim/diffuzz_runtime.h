// Runs GPU kernels of ordinary C++ on one CPU thread: one fiber per GPU thread.
//
// Included after CUDA's headers (uint3, dim3) and before the kernel's source. The scheduler is in
// diffuzz_runtime.cpp. Threads of a block run one after the other until each waits in a warp or
// block operation or has ended; then the operations whose lanes are all there are carried out.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <vector_types.h>

#ifndef DIFFUZZ_WARP
  #error "DIFFUZZ_WARP must be defined"
#endif

namespace diffuzz {

constexpr int kWarp = DIFFUZZ_WARP;
constexpr uint64_t kNoMask = ~uint64_t{0};  // operations without a mask: whoever is there
constexpr size_t kSlot = 16;                // bytes a lane can hand to another one

extern uint3 thread_index, block_index;
extern dim3 block_dim, grid_dim;

struct Where {
  const char* file;
  int line;
};

// Ends the thread and its launch: something that is not emulated was reached. The op call throws
// "diffuzz: not emulatable: WHAT".
[[noreturn]] void refuse(const char* what);

// Notes a fault of the kernel and goes on.
void report(const char* kind, Where where, const char* format, ...);

enum class Op : uint8_t { kShuffle, kBallot, kSync };

// Waits until the warp operation can happen. kShuffle: `value` becomes that of lane `source`;
// kBallot: `value` (a uint64_t) becomes the set of lanes whose value is not zero.
void warp_operation(Op op, uint64_t mask, void* value, size_t size, int source, Where where);

// Waits for the block. Returns how many of its threads passed `predicate`.
int block_barrier(bool predicate, Where where);

// Runs `body` once per thread. False if no GPU could launch these dimensions.
bool launch(dim3 grid, dim3 block, const std::function<void()>& body);

inline int linear_thread() {
  return thread_index.x + block_dim.x * (thread_index.y + block_dim.y * thread_index.z);
}
inline int lane() { return linear_thread() % kWarp; }

#define DIFFUZZ_HERE                                                                  \
  const char *diffuzz_file = __builtin_FILE(), int diffuzz_line = __builtin_LINE()
#define DIFFUZZ_WHERE (::diffuzz::Where{diffuzz_file, diffuzz_line})

template <class T>
T shuffle(uint64_t mask, T value, int source, Where where) {
  static_assert(sizeof(T) <= kSlot && std::is_trivially_copyable_v<T>);
  warp_operation(Op::kShuffle, mask, &value, sizeof(T), source, where);
  return value;
}

inline uint64_t ballot(uint64_t mask, bool predicate, Where where) {
  uint64_t value = predicate;
  warp_operation(Op::kBallot, mask, &value, sizeof(value), 0, where);
  return value;
}

// Lane arithmetic of CUDA's and HIP's shuffles: `width` splits the warp into sections.
inline int lane_indexed(int source, int width) {
  return (lane() & ~(width - 1)) + (source & (width - 1));
}
inline int lane_up(unsigned delta, int width) {
  int const own = lane(), source = own - static_cast<int>(delta);
  return source < (own & ~(width - 1)) ? own : source;
}
inline int lane_down(unsigned delta, int width) {
  int const own = lane();
  return (own & (width - 1)) + static_cast<int>(delta) >= width ? own
                                                                : own + static_cast<int>(delta);
}
inline int lane_xor(int bits, int width) {
  int const own = lane(), source = own ^ bits;
  return source >= ((own + width) & ~(width - 1)) ? own : source;
}

bool launch_failed();  // remembers cudaErrorInvalidConfiguration for cudaGetLastError

// kernel<<<g, b, smem, stream>>>(args...) is rewritten to
// ::diffuzz::Launch(g, b, smem, stream).run(kernel, args...).
struct Launch {
  dim3 grid, block;
  Launch(dim3 g, dim3 b, size_t shared = 0, const void* = nullptr) : grid(g), block(b) {
    if (shared != 0) dynamic_shared = shared;
  }
  size_t dynamic_shared = 0;

  template <class... P, class... A>
  bool run(void (*kernel)(P...), A&&... a) const {
    if (dynamic_shared) refuse("dynamic shared memory");
    std::tuple<std::remove_cv_t<std::remove_reference_t<P>>...> arguments(
        static_cast<std::remove_reference_t<P>>(a)...);
    return launch(grid, block, [&] { std::apply(kernel, arguments); });
  }
};

}  // namespace diffuzz

inline uint3& threadIdx = ::diffuzz::thread_index;
inline uint3& blockIdx = ::diffuzz::block_index;
inline dim3& blockDim = ::diffuzz::block_dim;
inline dim3& gridDim = ::diffuzz::grid_dim;
constexpr int warpSize = ::diffuzz::kWarp;
