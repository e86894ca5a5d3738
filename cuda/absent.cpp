// Takes the place of the CUDA backend in builds without it: using the device throws an Error that says how to get it.
#include "tensor/kernels.h"

namespace fovea {

void start_cuda() {
  fail(
      "--device cuda: fovea was built without CUDA; use --device cpu, or install the CUDA Toolkit and configure with "
      "-Dcuda=enabled (-Dcuda=host runs its kernels on the CPU)");
}

bool cuda_is_available() { return false; }

}  // namespace fovea
