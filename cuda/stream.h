/// The stream that everything on the GPU is ordered on, and checked calls.
#pragma once
#include <cuda_runtime.h>

#include "tensor/error.h"

namespace fovea::cuda {

/// Throws Error with CUDA's own words unless the call succeeded.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail("cuda: {}: {}", what, cudaGetErrorString(status));
}

cudaStream_t stream();

}  // namespace fovea::cuda
