/// The CUDA stream that all of fovea's work on the GPU runs in, and error checks for calls of CUDA.
#pragma once
#include <cuda_runtime.h>

#include "tensor/error.h"

namespace fovea::cuda {

/// Throws Error with `what` and CUDA's error message, unless the call succeeded.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail("cuda: {}: {}", what, cudaGetErrorString(status));
}

cudaStream_t stream();

/// Waits until all work in the stream has finished, and adds 1 to the count of such waits. Throws Error naming `what`
/// if a kernel failed, and the error of an index that a kernel found to be outside of its range (index_report.h).
void wait_for_stream(const char* what);

}  // namespace fovea::cuda
