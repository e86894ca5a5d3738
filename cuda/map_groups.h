/// The GPU's kernel for formulas on many groups of tensors, such as the step of an optimizer on all parameters.
#pragma once
#include <span>
#include <vector>

#include "cuda/map_kernel.h"
#include "cuda/piece_table.h"

namespace fovea::cuda {

template <class T, class F>
using GroupTable = PieceTable<T, result_count<F> + F::inputs, 4096>;

template <class T, class F>
__global__ void map_table(const __grid_constant__ F f, const __grid_constant__ GroupTable<T, F> table) {
  constexpr int results = result_count<F>, n = results + F::inputs, width = widest_pack<T>;
  const auto [group, begin, length] = table.piece();
  for (std::int64_t e = static_cast<std::int64_t>(threadIdx.x) * width; e < length; e += blockDim.x * width) {
    T* at[n];
    std::int64_t step[n];
    for (int k = 0; k < n; ++k) {
      step[k] = k < n - shared_inputs_of<F> ? 1 : 0;
      at[k] = table.first[group][k] + step[k] * (begin + e);
    }
    const int count = static_cast<int>(length - e < width ? length - e : width);
    map_run<results, F::inputs, width>(at, step, count == width ? (1u << (n - shared_inputs_of<F>)) - 1 : 0, count,
                                       FormulaOfElement<T, F, F::inputs>{f});
  }
}

/// Whether the loop is one run of neighbouring elements in every operand that is not shared, all of them aligned.
template <class T, class F>
bool is_flat(const MapOperands<T, result_count<F> + F::inputs>& operands) {
  constexpr unsigned own = (1u << (result_count<F> + F::inputs - shared_inputs_of<F>)) - 1;
  return operands.loop.rank == 1 && (operands.loop.packed & own) == own;
}

/// Computes the groups whose type is T: those that are flat together, the others one by one.
template <class T, class F>
void map_groups_of(const F& f, std::span<const MapGroup> groups) {
  GroupTable<T, F> table;
  std::int64_t bytes = 0;  // that the groups of the table move
  auto flush = [&] {
    if (table.groups > 0) launch(F::name, bytes, map_table<T, F>, {table.blocks()}, f, table);
    table.groups = 0, bytes = 0;
  };
  for (const MapGroup& group : groups) {
    if (group.out[0]->dtype() != dtype_of<T>) continue;
    const MapTensors<T, F, F::inputs> tensors(group.out, group.in);
    const auto operands = tensors.loop();
    if (!is_flat<T, F>(operands)) {
      launch(F::name, tensors.bytes(), map_strided<T, F, F::inputs>, {blocks_for(operands.loop.runs())}, f, operands);
      continue;
    }
    table.add(operands.loop.count, tensors.first);
    bytes += tensors.bytes();
    if (table.groups == table.most) flush();
  }
  flush();
}

/// The CompiledMap of functors of type F: as few kernels as the number of groups allows.
template <class F>
void map_groups(const void* functor, std::span<const MapGroup> groups) {
  map_groups_of<float>(*static_cast<const F*>(functor), groups);
  map_groups_of<double>(*static_cast<const F*>(functor), groups);
}

}  // namespace fovea::cuda
