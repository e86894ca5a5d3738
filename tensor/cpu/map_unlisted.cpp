// The CPU's kernel for element-wise functors that are in no list: the loops that were compiled with them.
#include "tensor/cpu/map_loop.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

const Provide provide(Device::cpu, [](Kernels& table) {
  table.map_unlisted = [](const MapFormula& formula, const void* f, Tensor* const* out, const Tensor* const* in) {
    visit_real(formula.name, out[0]->dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      map_rows<T>(formula.row<T>(), f, out, formula.results, in, formula.inputs, formula.cost);
    });
  };
});

}  // namespace fovea::cpu
