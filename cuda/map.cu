// The element-wise formulas and their first derivatives on the GPU.
#include "cuda/map_kernel.h"

namespace fovea::cuda {

const Provide provide_maps(Device::cuda, [](Kernels& table) {
  ProvideMaps maps{table};
  for_functors<0>(maps, ElementwiseFunctors{});
  for_functors<1>(maps, ElementwiseFunctors{});
});

}  // namespace fovea::cuda
