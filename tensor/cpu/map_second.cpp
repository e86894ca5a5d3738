#include "tensor/cpu/map_instances.h"

namespace fovea {

/// Second derivatives, for create_graph.
std::vector<void (*)()> compiled_second_derivatives() {
  KernelAddresses kernels;
  for_functors<2>(kernels, ElementwiseFunctors{});
  return kernels.addresses;
}

}  // namespace fovea
