// The GPU's kernels for the element-wise formulas, their first derivatives, and the formulas with several results.
#include "cuda/map_groups.h"
#include "tensor/formula/several_formulas.h"

namespace fovea::cuda {

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_maps<0, 1>(table, []<class F, int inputs>(const F& f, std::integral_constant<int, inputs>, auto out,
                                                    auto in) { map_tensors<F, inputs>(f, out, in); });
  provide_list(table.several, formula::SeveralFormulas{},
               [](const auto& f, std::span<const MapGroup> groups) { map_groups(f, groups); });
});

}  // namespace fovea::cuda
