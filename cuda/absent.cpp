// A build without the CUDA backend: asking for the device is one clear line.
#include "tensor/kernels.h"

namespace fovea {

void start_cuda() {
  fail(
      "--device cuda: fovea was built without CUDA; install the CUDA Toolkit and configure with -Dcuda=enabled, or "
      "with -Dcuda=host to run its kernels on the CPU");
}

bool cuda_is_available() { return false; }

}  // namespace fovea
