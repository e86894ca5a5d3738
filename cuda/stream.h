/// The CUDA stream that all of fovea's work on the GPU runs in, and error checks for calls of CUDA.
#pragma once
#include <cuda_runtime.h>

#include "tensor/error.h"

namespace fovea::cuda {

/// Throws the Error of a call of CUDA that failed. If a kernel caused it, the message says which, or how to learn that.
[[noreturn]] void refuse(cudaError_t status, const char* what);

/// Throws Error with `what` and CUDA's error message, unless the call succeeded.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) [[unlikely]]
    refuse(status, what);
}

cudaStream_t stream();

/// Waits until all work in the stream has finished, and adds 1 to the count of such waits. Throws Error naming `what`
/// if a kernel failed, and the error of an index that a kernel found to be outside of its range (index_report.h).
void wait_for_stream(const char* what);

/// Counts a kernel, product or copy that was just appended to the stream, and the bytes that it moves at least. Throws
/// Error naming it if CUDA refused it. With FOVEA_CUDA_SYNC=1, waits until it has finished, so that its failure is
/// noticed before anything else runs.
void launched(const char* name, std::int64_t bytes);

}  // namespace fovea::cuda
