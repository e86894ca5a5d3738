// The GPU's kernels for second derivatives of the element-wise formulas.
#include "cuda/map_kernel.h"

namespace fovea::cuda {

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_maps<2>(table, []<class F, int inputs>(const F& f, std::integral_constant<int, inputs>, auto out, auto in) {
    map_tensors<F, inputs>(f, out, in);
  });
});

}  // namespace fovea::cuda
