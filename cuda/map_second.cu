// Second derivatives on the GPU.
#include "cuda/map_kernel.h"

namespace fovea::cuda {

void register_second_derivatives() {
  RegisterMaps maps;
  for_functors<2>(maps, ElementwiseFunctors{});
}

}  // namespace fovea::cuda
