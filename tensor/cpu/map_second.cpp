// Second derivatives of the element-wise formulas, for create_graph; a file of its own, as it takes long to compile.
#include "tensor/cpu/map_loop.h"
#include "tensor/provide.h"

namespace fovea::cpu {

const Provide provide(Device::cpu, [](Kernels& table) {
  provide_maps<2>(table, []<class F, int inputs>(const F& f, std::integral_constant<int, inputs>, auto out, auto in) {
    map_elements<F, inputs>(f, out, in);
  });
});

}  // namespace fovea::cpu
