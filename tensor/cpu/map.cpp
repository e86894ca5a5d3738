// The CPU's kernel for element-wise formulas: it runs the loops that were compiled with them.
#include <algorithm>

#include "tensor/element_loop.h"
#include "tensor/kernels.h"
#include "tensor/map_formula.h"

namespace fovea::cpu {
namespace {

/// Computes a group with up to `most` operands. If there are fewer, the remaining places hold the first result and are
/// not used.
template <int most, class T>
void map_rows(const MapFormula& formula, const void* f, const MapGroup& group) {
  std::array<const Tensor*, most> operands;
  operands.fill(group.out[0]);
  std::array<T*, most> first{};
  for (int k = 0; k < formula.results; ++k) {
    operands[k] = group.out[k];
    first[k] = group.out[k]->template mutable_data<T>();
  }
  for (int k = 0; k < formula.inputs; ++k) {
    operands[formula.results + k] = group.in[k];
    first[formula.results + k] = const_cast<T*>(group.in[k]->template data<T>());
  }
  auto loop = plan_loop<most>(group.out[0]->shape(), operands);
  std::array<std::int64_t, most> step;
  for (int k = 0; k < most; ++k) step[k] = loop.strides[k][-1];
  auto run = [&](auto& offset, std::int64_t count) {
    std::array<T*, most> at;
    for (int k = 0; k < formula.results + formula.inputs; ++k) at[k] = first[k] + offset[k];
    formula.row<T>()(f, at.data(), step.data(), count);
  };
  for_runs<most>(loop, run, formula.cost);
}

template <class T>
void map_group(const MapFormula& formula, const void* f, const MapGroup& group) {
  const int operands = formula.results + formula.inputs;
  auto run = operands <= 2   ? map_rows<2, T>
             : operands <= 3 ? map_rows<3, T>
             : operands <= 4 ? map_rows<4, T>
             : operands <= 7 ? map_rows<7, T>
                             : map_rows<most_map_operands, T>;
  run(formula, f, group);
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.map = [](const MapFormula& formula, const void* f, std::span<const MapGroup> groups) {
    for (const MapGroup& group : groups)
      visit_real(formula.name, group.out[0]->dtype(),
                 [&](auto type) { map_group<typename decltype(type)::type>(formula, f, group); });
  };
});

}  // namespace
}  // namespace fovea::cpu
