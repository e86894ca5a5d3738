// The GPU's kernel for element-wise formulas. Functors of the library's lists have compiled kernels (map_kernel.h). For
// others a kernel is made of the functor's expression, and compiled at its first use; where kernels run on the CPU, it
// calls the loops that the C++ compiler made of the functor.
//
// Tried, and did not pay: writing the kernel's text at every launch, which took the host 9.7 µs for a Gaussian. With
// the text kept under the functor's type and bytes it takes 0.03 µs.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/compiled.h"
#include "cuda/map_kernel.h"
#include "cuda/map_text.h"

namespace fovea::cuda {

std::unordered_map<std::type_index, CompiledMap>& compiled_maps() {
  static std::unordered_map<std::type_index, CompiledMap> all;
  return all;
}

namespace {

static_assert(max_operands == most_map_operands);

template <class T>
MapOperands<T> operands_of(const MapFormula& formula, const MapGroup& group) {
  const auto& [out, in] = group;
  std::array<const Tensor*, max_operands> tensors;
  tensors.fill(out[0]);
  std::copy_n(out, formula.results, tensors.begin());
  std::copy_n(in, formula.inputs, tensors.begin() + formula.results);
  std::array<T*, max_operands> first;
  first.fill(const_cast<T*>(out[0]->template data<T>()));  // of operands that there are not, which are not read either
  for (int k = 0; k < formula.results; ++k) first[k] = out[k]->template mutable_data<T>();
  for (int k = 0; k < formula.inputs; ++k) first[formula.results + k] = const_cast<T*>(in[k]->template data<T>());
  return {plan_loop<max_operands>(out[0]->shape(), tensors), first};
}

#ifdef FOVEA_CUDA_ON_HOST

/// Each thread calls the functor's loop for rows of one element.
template <class T>
__global__ void map_by_rows(MapOperands<T> operands, cpu::RowFunction<T> row, std::shared_ptr<const void> functor) {
  constexpr std::int64_t step[max_operands] = {};
  for_elements(operands.loop.count, [&](std::int64_t element) {
    std::int64_t offset[max_operands];
    operands.loop.offsets(element, offset);
    T* at[max_operands];
    for (int k = 0; k < max_operands; ++k) at[k] = operands.first[k] + offset[k];
    row(functor.get(), at, step, 1);
  });
}

/// Throws Error unless the kernel that a GPU would run is the one that the functor describes now.
void require_current(const MapFormula& formula, const void* functor, DType dtype, const FunctorKernel& kernel) {
  const Expression now = formula.expression(functor);
  const bool has_equal_constants = now.constants.size() <= kernel.constants.size() &&
                                   (now.constants.empty() || std::memcmp(now.constants.data(), kernel.constants.data(),
                                                                         now.constants.size() * sizeof(double)) == 0);
  require(has_equal_constants && map_text(now, dtype) == kernel.text,
          "cuda: {}: the functor computes something else than one with the same bytes did before; a functor must not "
          "read what it points to",
          formula.name);
}

#endif

template <class T>
void run(const MapFormula& formula, std::int64_t bytes, const void* functor, const MapOperands<T>& operands) {
  require(formula.expression, "{}: there is no kernel for it on {}", formula.name, name(Device::cuda));
  const auto kernel = functor_kernel(formula, functor, dtype_of<T>);
  const std::vector<T> constants(kernel->constants.begin(), kernel->constants.end());
  const Grid grid{blocks_for(operands.loop.runs())};
  if (launch_compiled(
          {formula.name, bytes, kernel->text, map_text_kernel, grid, {argument(operands), argument(constants)}}))
    return;
#ifdef FOVEA_CUDA_ON_HOST
  require_current(formula, functor, dtype_of<T>, *kernel);
  launch(formula.name, bytes, map_by_rows<T>, {blocks_for(operands.loop.count)}, operands, formula.row<T>(),
         formula.copy(functor));
#endif
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.map = [](const MapFormula& formula, const void* functor, std::span<const MapGroup> groups) {
    if (const auto compiled = compiled_maps().find(*formula.type); compiled != compiled_maps().end())
      return compiled->second(functor, groups);
    for (const MapGroup& group : groups)
      visit_real(formula.name, group.out[0]->dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        std::int64_t bytes = 0;
        for (int k = 0; k < formula.results; ++k) bytes += traffic(*group.out[k]);
        for (int k = 0; k < formula.inputs; ++k) bytes += traffic(*group.in[k]);
        run<T>(formula, bytes, functor, operands_of<T>(formula, group));
      });
  };
});

}  // namespace

}  // namespace fovea::cuda
