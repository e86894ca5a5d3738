/// The stream that all work on the GPU is ordered on, and checked calls.
#pragma once
#include <cuda_runtime.h>

#include "tensor/error.h"

namespace fovea::cuda {

/// Throws Error with CUDA's own words unless the call succeeded.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail("cuda: {}: {}", what, cudaGetErrorString(status));
}

cudaStream_t stream();

/// Waits until everything in the stream has run, and counts the wait. Throws Error naming `what` if a kernel failed.
void wait_for_stream(const char* what);

}  // namespace fovea::cuda
