/// Kernels on the CPU: the threads of a block are fibers of one host thread, and blocks run one after the other.
///
/// A fiber runs until it waits for others (at a barrier or a warp operation) or ends. The order in which the fibers and
/// the blocks run is varied (Order), and so a race shows as a result that depends on it.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}  // NOLINT: converts as CUDA's
};

namespace fovea::cuda_on_host {

inline constexpr int warp_lanes = 32;

/// A line of a kernel's source. std::source_location needs more than clang 14 has.
struct Site {
  const char* file;
  unsigned line;
  static constexpr Site current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// The running thread's place in the grid.
struct Place {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern Place* running;
inline const Place& place() { return *running; }

/// The order in which the threads of a block, and the blocks of a grid, run.
struct Order {
  enum class Of { forward, backward, shuffled } threads = Of::forward, blocks = Of::forward;
  std::uint64_t seed = 0;  ///< of `shuffled`
};

struct Launch {
  const char* name;
  dim3 grid, block;
  std::size_t shared_bytes;
  std::function<void()> body;  ///< what one thread does
};

/// Runs all threads of all blocks. Throws fovea::Error that names the kernel, block, thread and place in the source for
/// a barrier that not all threads reach, threads that wait for each other for ever, and what report_fault is told.
void run_grid(const Launch& launch, Order order);

/// True while the calling code runs in a thread of a kernel.
bool in_kernel();
/// Ends the running kernel with an error: `what` went wrong in the running thread. Does not return.
[[noreturn]] void report_fault(const std::string& what);
/// report_fault() of an access to `bytes` bytes at an address that is no multiple of that.
[[noreturn]] void report_misaligned(const void* address, std::size_t bytes);

/// The barrier of the block: every thread waits until all have come to this call.
void block_barrier(Site site);

/// Waits until all lanes of the mask that have not ended are here; each brings 8 bytes. Returns what lane k brought at
/// [k], and all bits set for lanes that brought nothing.
const std::uint64_t* exchange(unsigned mask, std::uint64_t mine, Site site);
inline int lane() {
  const Place& at = place();
  return static_cast<int>((at.thread.x + at.block_size.x * (at.thread.y + at.block_size.y * at.thread.z)) % warp_lanes);
}

/// The block's dynamic shared memory, 16-byte aligned, and its size.
std::byte* dynamic_shared();
std::size_t dynamic_shared_bytes();
/// A thread's asynchronous copies: bytes move when the thread waits for their group, and not before.
void start_copy(void* to, const void* from, std::size_t bytes);
void close_copy_group();
void wait_for_copies(std::size_t groups);

/// Counts the blocks that have run: a shared array whose number is another one has not been written in this block.
std::uint64_t block_number();

template <class T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "a warp operation moves at most 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The value that the lane at `source` brought; lanes of the last, shorter group keep their own when it lies outside.
template <class T>
T shuffle(unsigned mask, T mine, int source, bool inside, Site site) {
  const std::uint64_t* all = exchange(mask, to_bits(mine), site);
  return inside ? from_bits<T>(all[source]) : mine;
}

}  // namespace fovea::cuda_on_host

// ---- CUDA's functions for threads of a block and lanes of a warp ----
inline void __syncthreads(fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  fovea::cuda_on_host::block_barrier(site);
}
inline void __syncwarp(unsigned mask = ~0u, fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  fovea::cuda_on_host::exchange(mask, 0, site);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  int first = fovea::cuda_on_host::lane() & ~(width - 1);
  return fovea::cuda_on_host::shuffle(mask, value, first + (source & (width - 1)), true, site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32,
                  fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  int mine = fovea::cuda_on_host::lane(), source = mine ^ distance;
  return fovea::cuda_on_host::shuffle(mask, value, source, source < (mine & ~(width - 1)) + width, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int distance, int width = 32,
                   fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  int mine = fovea::cuda_on_host::lane(), source = mine + distance;
  return fovea::cuda_on_host::shuffle(mask, value, source, source < (mine & ~(width - 1)) + width, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance, int width = 32,
                 fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  int mine = fovea::cuda_on_host::lane(), source = mine - distance;
  return fovea::cuda_on_host::shuffle(mask, value, source, source >= (mine & ~(width - 1)), site);
}

/// Bit k: lane k is in the mask, has not ended, and its claim holds.
inline unsigned __ballot_sync(unsigned mask, int claim,
                              fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  const std::uint64_t* all = fovea::cuda_on_host::exchange(mask, claim != 0, site);
  unsigned votes = 0;
  for (int k = 0; k < fovea::cuda_on_host::warp_lanes; ++k)
    if (all[k] == 1) votes |= 1u << k;
  return votes;
}
inline int __any_sync(unsigned mask, int claim, fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  return __ballot_sync(mask, claim, site) != 0;
}
inline int __all_sync(unsigned mask, int claim, fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  return __ballot_sync(mask, !claim, site) == 0;
}
/// Bit k: lane k is in the mask, has not ended, and has the same value; at most 32 bits of it are compared.
template <class T>
unsigned __match_any_sync(unsigned mask, T value,
                          fovea::cuda_on_host::Site site = fovea::cuda_on_host::Site::current()) {
  static_assert(sizeof(T) <= 4, "64 bits could be those of a lane that brings nothing");
  const std::uint64_t mine = fovea::cuda_on_host::to_bits(value),
                      *all = fovea::cuda_on_host::exchange(mask, mine, site);
  unsigned same = 0;
  for (int k = 0; k < fovea::cuda_on_host::warp_lanes; ++k)
    if (all[k] == mine) same |= 1u << k;
  return same;
}
/// Order a thread's writes as other blocks and the host see them; fibers' writes already are in order.
inline void __threadfence() {}
inline void __threadfence_system() {}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

// ---- Atomics: fibers switch only where they wait, so plain code is atomic ----
template <class T>
T atomicAdd(T* at, T value) {
  T before = *at;
  *at = before + value;
  return before;
}
template <class T>
T atomicMin(T* at, T value) {
  T before = *at;
  if (value < before) *at = value;
  return before;
}
template <class T>
T atomicMax(T* at, T value) {
  T before = *at;
  if (value > before) *at = value;
  return before;
}
