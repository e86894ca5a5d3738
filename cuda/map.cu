// The GPU's kernels for the element-wise formulas, their first derivatives, and the formulas with several results.
#include "cuda/map_kernel.h"
#include "tensor/formula/several_formulas.h"

namespace fovea::cuda {

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_maps<0, 1>(table, []<class F, int inputs>(const F& f, std::integral_constant<int, inputs>, auto out,
                                                    auto in) { map_tensors<F, inputs>(f, out, in); });
  provide_list(table.several, formula::SeveralFormulas{},
               []<class F>(const F& f, auto out, auto in) { map_tensors<F, F::inputs>(f, out, in); });
});

}  // namespace fovea::cuda
