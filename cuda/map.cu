// The formulas and their first derivatives on the GPU.
#include "cuda/map_kernel.h"

namespace fovea::cuda {

void register_maps() {
  RegisterMaps maps;
  for_functors<0>(maps, ElementwiseFunctors{});
  for_functors<1>(maps, ElementwiseFunctors{});
}

}  // namespace fovea::cuda
