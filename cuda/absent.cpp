// What the CUDA backend is in a build without CUDA: the same headers, and one clear line at run time.
#include "tensor/cuda_backend.h"

namespace fovea {

CudaBackend& cuda_backend() {
  fail("--device cuda: fovea was built without CUDA; install the CUDA Toolkit and configure with -Dcuda=enabled");
}

bool cuda_is_available() { return false; }

}  // namespace fovea
