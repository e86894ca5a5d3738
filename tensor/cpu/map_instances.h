/// Compiling the listed functors once, into the library: a table of addresses makes the compiler emit every kernel.
#pragma once
#include <vector>

#include "tensor/formula/functor_list.h"
#include "tensor/map.h"

namespace fovea {

template <class F, int n>
void MapKernel<F, n>::run(const F& f, Tensor& out, const std::array<const Tensor*, n>& in) {
  run_map<F, n>(f, out, in);
}

struct KernelAddresses {
  std::vector<void (*)()> addresses;
  template <class F, int n>
  void visit() {
    addresses.push_back(reinterpret_cast<void (*)()>(&MapKernel<F, n>::run));
  }
};

}  // namespace fovea
