/// Asynchronous copies from device memory to shared memory (cp.async, from compute capability 8.0): they run while the
/// threads compute.
///
/// A thread starts copies, closes them into a group, and later waits for its groups. Other threads see the copied data
/// after a barrier that follows the wait.
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

namespace fovea::cuda {

#ifndef FOVEA_CUDA_ON_HOST

/// Starts copying 16 bytes; both addresses must be multiples of 16. If they do not `exist`, writes 0 instead, and reads
/// nothing.
__device__ inline void copy_16_bytes_async(void* shared, const void* from, bool exist = true) {
  auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(exist ? 16 : 0)
               : "memory");
}
/// Makes one group of the copies that this thread has started since its last call.
__device__ inline void close_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until all copy groups of this thread have finished, except at most the latest `groups`.
template <int groups>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

#else

inline void copy_16_bytes_async(void* shared, const void* from, bool exist = true) {
  alignas(16) static constexpr std::uint8_t zeros[16] = {};
  cuda_on_host::start_copy(shared, exist ? from : zeros, 16);
}
inline void close_copy_group() { cuda_on_host::close_copy_group(); }
template <int groups>
void wait_for_copies() {
  cuda_on_host::wait_for_copies(groups);
}

#endif

}  // namespace fovea::cuda
