// The scheduler behind diffuzz_runtime.h, and the CUDA runtime calls that host code makes.
#include <cuda_runtime_api.h>

#include "diffuzz_runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#ifndef __has_feature
  #define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
  #define DIFFUZZ_ASAN 1
  #include <sanitizer/asan_interface.h>
  #include <sanitizer/common_interface_defs.h>
#endif

// diffuzz_switch(from, to): saves the callee-saved registers on the stack, stores the stack
// pointer in *from and goes on where *to was left.
#if defined(__x86_64__)
extern "C" void diffuzz_switch(void** from, void* to) __attribute__((visibility("hidden")));
asm(R"(
.text
.hidden diffuzz_switch
.globl diffuzz_switch
.type diffuzz_switch, @function
diffuzz_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size diffuzz_switch, .-diffuzz_switch
)");
static void* prepare_stack(char* top, void (*entry)()) {
  // At entry a function expects the stack pointer 8 below a multiple of 16, at a return address.
  void** sp = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
  *--sp = nullptr;
  *--sp = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  return sp;
}
#elif defined(__aarch64__)
extern "C" void diffuzz_switch(void** from, void* to) __attribute__((visibility("hidden")));
asm(R"(
.text
.hidden diffuzz_switch
.globl diffuzz_switch
.type diffuzz_switch, %function
diffuzz_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size diffuzz_switch, .-diffuzz_switch
)");
static void* prepare_stack(char* top, void (*entry)()) {
  char* sp = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15}) - 160;
  std::memset(sp, 0, 160);
  *reinterpret_cast<void**>(sp + 88) = reinterpret_cast<void*>(entry);  // x30
  return sp;
}
#else
  #error "diffuzz: not emulatable: this processor (x86-64 and arm64 are)"
#endif

namespace diffuzz {

uint3 thread_index, block_index;
dim3 block_dim, grid_dim;

namespace {

constexpr size_t kStack = 256 * 1024;
constexpr size_t kGuard = 4096;
constexpr int kMaxReports = 100;

enum class State : uint8_t { kReady, kWarp, kBarrier, kDone };

struct Fiber {
  void* sp = nullptr;
  char* stack = nullptr;
  void* fake = nullptr;  // ASan's
  State state = State::kDone;
  Op op = Op::kSync;
  uint64_t mask = 0;
  int source = 0;
  size_t size = 0;
  bool predicate = false;
  Where where{"", 0};
  alignas(kSlot) unsigned char given[kSlot], taken[kSlot];
};

std::vector<Fiber> fibers;
std::vector<char*> spare_stacks;
void* scheduler_sp = nullptr;
#ifdef DIFFUZZ_ASAN
const void* scheduler_bottom = nullptr;
size_t scheduler_size = 0;
void* scheduler_fake = nullptr;
#endif
int current = -1, thread_count = 0, barrier_passed = 0;
const std::function<void()>* body = nullptr;
std::string failure;  // why the launch has to end; empty while it may go on
bool bad_launch = false;
std::mutex one_launch;
std::string pending_reports;
int report_count = 0;

char* new_stack() {
  if (!spare_stacks.empty()) {
    char* stack = spare_stacks.back();
    spare_stacks.pop_back();
    return stack;
  }
  void* memory = mmap(nullptr, kStack + kGuard, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kGuard, PROT_NONE);
  return static_cast<char*>(memory) + kGuard;
}

void place(int thread) {
  current = thread;
  unsigned const x = block_dim.x, y = block_dim.y, t = static_cast<unsigned>(thread);
  thread_index = {t % x, t / x % y, t / (x * y)};
}

void to_scheduler(bool ending) {
  Fiber& f = fibers[current];
  (void)ending;
#ifdef DIFFUZZ_ASAN
  __sanitizer_start_switch_fiber(ending ? nullptr : &f.fake, scheduler_bottom, scheduler_size);
#endif
  diffuzz_switch(&f.sp, scheduler_sp);
#ifdef DIFFUZZ_ASAN
  __sanitizer_finish_switch_fiber(f.fake, &scheduler_bottom, &scheduler_size);
#endif
}

[[noreturn]] void end_thread() {
  fibers[current].state = State::kDone;
  to_scheduler(true);
  std::abort();
}

[[noreturn]] void fail(const std::string& why) {
  if (failure.empty()) failure = why;
  end_thread();
}

void fiber_main() {
#ifdef DIFFUZZ_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_size);
#endif
  try {
    (*body)();
  } catch (const std::exception& error) {
    if (failure.empty()) failure = error.what();
  }
  end_thread();
}

void resume(int thread) {
  place(thread);
  Fiber& f = fibers[thread];
  if (!f.stack) {
    f.stack = new_stack();
    f.sp = prepare_stack(f.stack + kStack, fiber_main);
    f.fake = nullptr;
  }
#ifdef DIFFUZZ_ASAN
  __sanitizer_start_switch_fiber(&scheduler_fake, f.stack, kStack);
#endif
  diffuzz_switch(&scheduler_sp, f.sp);
#ifdef DIFFUZZ_ASAN
  __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
#endif
  if (f.state == State::kDone) {
#ifdef DIFFUZZ_ASAN
    __asan_unpoison_memory_region(f.stack, kStack);
#endif
    spare_stacks.push_back(f.stack);
    f.stack = nullptr;
  }
}

uint64_t bit(int lane) { return uint64_t{1} << lane; }

// What a lane of a completed group takes with it.
void hand_over(int first, int lane, uint64_t group) {
  Fiber& f = fibers[first + lane];
  if (f.op == Op::kShuffle) {
    int const source = f.source;
    bool const there = source >= 0 && source < kWarp && (group & bit(source));
    if (there) {
      std::memcpy(f.taken, fibers[first + source].given, f.size);
    } else {
      place(first + lane);
      report("uninitialised", f.where, "a shuffle reads lane %d, which does not take part", source);
      std::memset(f.taken, 0xff, f.size);
    }
  } else if (f.op == Op::kBallot) {
    uint64_t value = 0, one;
    for (int l = 0; l < kWarp; l++)
      if (group & bit(l)) {
        std::memcpy(&one, fibers[first + l].given, sizeof(one));
        if (one) value |= bit(l);
      }
    std::memcpy(f.taken, &value, sizeof(value));
  }
}

// Carries out every warp operation of the warp whose lanes are all there. With `stuck`, those
// whose lanes cannot come any more as well. True if any lane may go on.
bool resolve_warp(int warp, bool stuck) {
  int const first = warp * kWarp;
  uint64_t alive = 0, waiting = 0, done = 0;
  for (int l = 0; l < kWarp && first + l < thread_count; l++) {
    Fiber const& f = fibers[first + l];
    if (f.state != State::kDone) alive |= bit(l);
    if (f.state == State::kWarp) waiting |= bit(l);
  }
  for (int l = 0; l < kWarp; l++) {
    if (!(waiting & bit(l)) || (done & bit(l))) continue;
    Fiber const& leader = fibers[first + l];
    uint64_t const mask = leader.mask, wanted = mask & alive;
    uint64_t group = 0;
    for (int m = 0; m < kWarp && first + m < thread_count; m++) {
      Fiber const& f = fibers[first + m];
      if ((waiting & bit(m)) && !(done & bit(m)) && f.op == leader.op && f.mask == mask)
        group |= bit(m);
    }
    if (mask == kNoMask) {
      if (waiting != alive && !stuck) continue;
    } else if ((wanted & ~group) != 0) {
      if (!stuck) continue;
      place(first + l);
      report("hang", leader.where, "a warp operation waits for lanes that never come");
    } else if (!(mask & bit(l))) {
      place(first + l);
      report("uninitialised", leader.where, "lane %d is not in its own mask", l);
    }
    for (int m = 0; m < kWarp; m++)
      if (group & bit(m)) hand_over(first, m, group);
    for (int m = 0; m < kWarp; m++)
      if (group & bit(m)) fibers[first + m].state = State::kReady;
    done |= group;
    if (mask == kNoMask) break;
  }
  return done != 0;
}

// Runs every thread that can go on; true if there was one.
bool run_ready() {
  bool ran = false;
  for (int t = 0; t < thread_count && failure.empty(); t++)
    if (fibers[t].state == State::kReady) {
      resume(t);
      ran = true;
    }
  return ran;
}

void release_barrier() {
  barrier_passed = 0;
  for (int t = 0; t < thread_count; t++)
    if (fibers[t].state == State::kBarrier) {
      barrier_passed += fibers[t].predicate;
      fibers[t].state = State::kReady;
    }
}

void run_block() {
  for (int t = 0; t < thread_count; t++) fibers[t].state = State::kReady;
  int const warps = (thread_count + kWarp - 1) / kWarp;
  for (;;) {
    run_ready();
    if (!failure.empty()) return;
    bool progress = false;
    int alive = 0, at_barrier = 0;
    for (int w = 0; w < warps; w++) progress |= resolve_warp(w, false);
    if (progress) continue;
    for (int t = 0; t < thread_count; t++) {
      alive += fibers[t].state != State::kDone;
      at_barrier += fibers[t].state == State::kBarrier;
    }
    if (alive == 0) return;
    if (at_barrier == alive) {
      release_barrier();
      continue;
    }
    for (int w = 0; w < warps; w++) progress |= resolve_warp(w, true);
    if (!progress) std::abort();  // cannot be: a thread that is alive waits for something
  }
}

// Threads of a launch that ended early still own stacks.
void drop_fibers() {
  for (Fiber& f : fibers)
    if (f.stack) {
#ifdef DIFFUZZ_ASAN
      __asan_unpoison_memory_region(f.stack, kStack);
#endif
      spare_stacks.push_back(f.stack);
      f.stack = nullptr;
    }
  current = -1;
  body = nullptr;
}

}  // namespace

void refuse(const char* what) {
  std::string const why = std::string("diffuzz: not emulatable: ") + what;
  if (current < 0) throw std::runtime_error(why);
  fail(why);
}

// One line per report: kind, file, line, block, thread, text, separated by tabs.
void report(const char* kind, Where where, const char* format, ...) {
  if (++report_count > kMaxReports) return;
  char text[512], line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  snprintf(line, sizeof(line), "%s\t%s\t%d\t%u,%u,%u\t%u,%u,%u\t%s\n", kind, where.file,
           where.line, block_index.x, block_index.y, block_index.z, thread_index.x,
           thread_index.y, thread_index.z, text);
  pending_reports += line;
  std::fprintf(stderr, "diffuzz-gpu: %s", line);
}

void warp_operation(Op op, uint64_t mask, void* value, size_t size, int source, Where where) {
  if (current < 0) throw std::runtime_error("diffuzz: a warp operation outside of a kernel");
  Fiber& f = fibers[current];
  f.op = op;
  f.mask = mask;
  f.source = source;
  f.size = size;
  f.where = where;
  std::memcpy(f.given, value, size);
  f.state = State::kWarp;
  to_scheduler(false);
  if (op != Op::kSync) std::memcpy(value, f.taken, size);
}

int block_barrier(bool predicate, Where where) {
  Fiber& f = fibers[current];
  f.predicate = predicate;
  f.where = where;
  f.state = State::kBarrier;
  to_scheduler(false);
  return barrier_passed;
}

bool launch(dim3 grid, dim3 block, const std::function<void()>& kernel_body) {
  uint64_t const threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 ||
      grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    bad_launch = true;
    return false;
  }
  std::lock_guard<std::mutex> guard(one_launch);
  thread_count = static_cast<int>(threads);
  if (fibers.size() < threads) fibers.resize(threads);
  block_dim = block;
  grid_dim = grid;
  body = &kernel_body;
  failure.clear();
  for (unsigned z = 0; z < grid.z && failure.empty(); z++)
    for (unsigned y = 0; y < grid.y && failure.empty(); y++)
      for (unsigned x = 0; x < grid.x && failure.empty(); x++) {
        block_index = {x, y, z};
        run_block();
      }
  drop_fibers();
  if (!failure.empty()) throw std::runtime_error(failure);
  return true;
}

bool launch_failed() {
  bool const failed = bad_launch;
  bad_launch = false;
  return failed;
}

}  // namespace diffuzz

// What a failed assert() in device code calls (see build_cpu: __assert_fail is renamed).
extern "C" [[noreturn]] void diffuzz_assert_fail(const char* expression, const char* file,
                                                 unsigned line, const char*) noexcept {
  ::diffuzz::report("assertion", {file, static_cast<int>(line)}, "assert(%s) failed", expression);
  if (::diffuzz::current < 0) std::abort();
  ::diffuzz::fail(std::string("device-side assert failed: ") + expression);
}

// Moves the reports noted so far into `buffer`, as far as whole lines fit; returns their length.
extern "C" __attribute__((visibility("default"))) size_t diffuzz_take_reports(char* buffer,
                                                                              size_t capacity) {
  std::string& text = ::diffuzz::pending_reports;
  size_t length = text.size();
  if (length > capacity) {
    size_t const end = text.rfind('\n', capacity ? capacity - 1 : 0);
    length = end == std::string::npos ? 0 : end + 1;
  }
  std::memcpy(buffer, text.data(), length);
  text.clear();
  ::diffuzz::report_count = 0;
  return length;
}

extern "C" {
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cudaDeviceProp{};
  properties->major = DIFFUZZ_CAPABILITY / 10;
  properties->minor = DIFFUZZ_CAPABILITY % 10;
  properties->warpSize = DIFFUZZ_WARP;
  properties->multiProcessorCount = 4;
  properties->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = DIFFUZZ_CAPABILITY / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = DIFFUZZ_CAPABILITY % 10; break;
    case cudaDevAttrMultiProcessorCount: *value = 4; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrWarpSize: *value = DIFFUZZ_WARP; break;
    default: ::diffuzz::refuse("a device attribute");
  }
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "invalid configuration argument";
}
cudaError_t cudaGetLastError() {
  return ::diffuzz::launch_failed() ? cudaErrorInvalidConfiguration : cudaSuccess;
}
cudaError_t cudaPeekAtLastError() {
  return ::diffuzz::bad_launch ? cudaErrorInvalidConfiguration : cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, enum cudaMemcpyKind,
                            cudaStream_t) {
  std::memmove(to, from, size);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t) {
  std::memset(to, value, size);
  return cudaSuccess;
}
}
