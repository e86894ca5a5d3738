#include "tensor/cpu/map_instances.h"

namespace fovea {

/// The formulas and their first derivatives.
std::vector<void (*)()> compiled_maps() {
  KernelAddresses kernels;
  for_functors<0>(kernels, ElementwiseFunctors{});
  for_functors<1>(kernels, ElementwiseFunctors{});
  return kernels.addresses;
}

}  // namespace fovea
