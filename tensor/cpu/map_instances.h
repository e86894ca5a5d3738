/// Compiling the listed functors into the CPU's table.
#pragma once
#include "tensor/cpu/map_loop.h"
#include "tensor/formula/functor_list.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

/// Fills the entries of what it visits (for_functors).
struct ProvideMaps {
  Kernels& table;
  template <class F, int n>
  void visit() {
    constexpr int place = place_of<typename UnderlyingFunctor<F>::type>(ElementwiseFunctors{});
    table.maps[place][derivative_order<F>] = [](const void* functor, Tensor& out, const Tensor* const* in) {
      map_elements<F, n>(*static_cast<const F*>(functor), out, in);
    };
  }
};

}  // namespace fovea::cpu
