// The CPU's kernels for the element-wise formulas, their first derivatives, and the formulas with several results.
#include "tensor/cpu/map_loop.h"
#include "tensor/formula/several_formulas.h"
#include "tensor/provide.h"

namespace fovea::cpu {

const Provide provide(Device::cpu, [](Kernels& table) {
  provide_maps<0, 1>(table, []<class F, int inputs>(const F& f, std::integral_constant<int, inputs>, auto out,
                                                    auto in) { map_elements<F, inputs>(f, out, in); });
  provide_list(table.several, formula::SeveralFormulas{}, []<class F>(const F& f, std::span<const MapGroup> groups) {
    for (const MapGroup& group : groups) map_elements<F, F::inputs>(f, group.out, group.in);
  });
});

}  // namespace fovea::cpu
