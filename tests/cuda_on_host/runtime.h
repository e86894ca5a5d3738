/// The host runtime beyond CUDA's own interface: the queue of kernels and library calls, the number of orders in which
/// kernels run, and counters for tests.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "tests/cuda_on_host/cuda_runtime.h"

namespace fovea::cuda_on_host {

/// Puts a kernel at the end of a stream's queue. A launch that CUDA would refuse leaves an error for cudaGetLastError.
void enqueue(cudaStream_t stream, const Launch& launch);
/// Puts another operation there, such as a product of cuBLAS; it may read and write device memory when it runs.
void enqueue(cudaStream_t stream, const char* name, std::function<void()> run);

/// Runs all operations in a stream's queue. The host does so for its own reasons: this is no wait of the program's.
void drain(cudaStream_t stream);

/// In how many orders of threads and blocks each kernel runs, from 1 (the default; another order at each launch) to 4.
/// With more than one, each run begins with the same memory and must leave the same, bit for bit; a difference is the
/// error of the kernel. The environment variable FOVEA_CUDA_ORDERS sets it where a program begins.
void set_orders(int orders);
int orders();

/// Whether all these bytes lie in one block of device memory.
bool is_device_memory(const void* first, std::size_t bytes);

/// Calls that made the host wait for the device, since the program began.
std::uint64_t synchronizations();
/// Blocks of device memory that are allocated now.
std::size_t live_blocks();
/// Bytes of pinned host memory that are allocated now.
std::size_t pinned_bytes();

}  // namespace fovea::cuda_on_host
