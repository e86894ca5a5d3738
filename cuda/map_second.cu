// Second derivatives on the GPU.
#include "cuda/map_kernel.h"

namespace fovea::cuda {

const Provide provide_second_derivatives(Device::cuda, [](Kernels& table) {
  ProvideMaps maps{table};
  for_functors<2>(maps, ElementwiseFunctors{});
});

}  // namespace fovea::cuda
