/// The GPU's kernel for formulas on many groups of tensors, such as the step of an optimizer on all parameters.
#pragma once
#include <span>
#include <vector>

#include "cuda/map_kernel.h"

namespace fovea::cuda {

/// Groups of operands that lie contiguous in memory, as a kernel takes them by value. Each block computes
/// `block_elements` elements of one group.
template <class T, class F>
struct GroupTable {
  static constexpr int operands = result_count<F> + F::inputs;
  static constexpr std::int64_t block_elements = 4096;
  /// As many as fit into 12 KiB of the 32 KiB that a kernel's parameters may take.
  static constexpr int most = (12 << 10) / (8 * operands + 12);

  int groups = 0;
  unsigned first_block[most + 1] = {};
  std::int64_t count[most];
  T* first[most][operands];

  void add(std::int64_t elements, const std::array<T*, operands>& addresses) {
    count[groups] = elements;
    std::copy(addresses.begin(), addresses.end(), first[groups]);
    first_block[groups + 1] =
        first_block[groups] + static_cast<unsigned>((elements + block_elements - 1) / block_elements);
    ++groups;
  }
  unsigned blocks() const { return first_block[groups]; }
};

template <class T, class F>
__global__ void map_table(const __grid_constant__ F f, const __grid_constant__ GroupTable<T, F> table) {
  constexpr int results = result_count<F>, n = results + F::inputs, width = widest_pack<T>;
  const int group = group_of_block(table.first_block, table.groups, blockIdx.x);
  const std::int64_t begin = (blockIdx.x - table.first_block[group]) * table.block_elements;
  const std::int64_t left = table.count[group] - begin, end = left < table.block_elements ? left : table.block_elements;
  for (std::int64_t e = static_cast<std::int64_t>(threadIdx.x) * width; e < end; e += blockDim.x * width) {
    T* at[n];
    std::int64_t step[n];
    for (int k = 0; k < n; ++k) {
      step[k] = k < n - shared_inputs_of<F> ? 1 : 0;
      at[k] = table.first[group][k] + step[k] * (begin + e);
    }
    const int count = static_cast<int>(end - e < width ? end - e : width);
    map_run<results, F::inputs, width>(at, step, count == width ? (1u << (n - shared_inputs_of<F>)) - 1 : 0, count,
                                       FormulaOfElement<T, F, F::inputs>{f});
  }
}

/// Whether the loop is one run of neighbouring elements in every operand that is not shared, all of them aligned.
template <class T, class F>
bool is_flat(const MapOperands<T, GroupTable<T, F>::operands>& operands) {
  constexpr unsigned own = (1u << (GroupTable<T, F>::operands - shared_inputs_of<F>)) - 1;
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
