// The element-wise formulas and their first derivatives.
#include "tensor/cpu/map_instances.h"

namespace fovea::cpu {

const Provide provide_maps(Device::cpu, [](Kernels& table) {
  ProvideMaps maps{table};
  for_functors<0>(maps, ElementwiseFunctors{});
  for_functors<1>(maps, ElementwiseFunctors{});
});

}  // namespace fovea::cpu
