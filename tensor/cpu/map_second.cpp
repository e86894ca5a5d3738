// Second derivatives of the element-wise formulas, for create_graph; a file of its own, as it takes long to compile.
#include "tensor/cpu/map_instances.h"

namespace fovea::cpu {

const Provide provide_second_derivatives(Device::cpu, [](Kernels& table) {
  ProvideMaps maps{table};
  for_functors<2>(maps, ElementwiseFunctors{});
});

}  // namespace fovea::cpu
