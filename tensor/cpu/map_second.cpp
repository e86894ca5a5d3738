// The CPU's kernels for second derivatives of the element-wise formulas, which backward passes with create_graph use.
// They have a file of their own because they take long to compile.
#include "tensor/cpu/map_loop.h"
#include "tensor/provide.h"

namespace fovea::cpu {

const Provide provide(Device::cpu, [](Kernels& table) {
  provide_maps<2>(table, []<class F, int inputs>(const F& f, std::integral_constant<int, inputs>, auto out, auto in) {
    map_elements<F, inputs>(f, out, in);
  });
});

}  // namespace fovea::cpu
