/// The GPU's kernels for `map`: they apply an element-wise formula of tensor/formula to the elements of tensors.
#pragma once
#include <array>
#include <span>
#include <typeindex>
#include <unordered_map>

#include "cuda/launch.h"
#include "cuda/map_operands.h"
#include "tensor/formula/functor_list.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

/// Computes groups of operands by the kernel that was compiled for one type of functor.
using CompiledMap = void (*)(const void* functor, std::span<const MapGroup> groups);
/// The compiled kernels by the types of their functors: those of the library's lists.
std::unordered_map<std::type_index, CompiledMap>& compiled_maps();

template <class T, class F, std::size_t... r, std::size_t... i>
__device__ void call_formula(const F& f, const T* x, T* y, std::index_sequence<r...>, std::index_sequence<i...>) {
  const auto results = f(x[i]...);
  ((y[r] = result<r>(results)), ...);
}

/// The formula as map_elements() and map_run() call it.
template <class T, class F, int inputs>
struct FormulaOfElement {
  const F& f;
  __device__ void operator()(const T* x, T* y) const {
    call_formula(f, x, y, std::make_index_sequence<result_count<F>>{}, std::make_index_sequence<inputs>{});
  }
};

template <class T, class F, int inputs>
__global__ void map_strided(F f, MapOperands<T, result_count<F> + inputs> operands) {
  map_elements<result_count<F>, inputs>(operands, FormulaOfElement<T, F, inputs>{f});
}

/// The results, then the inputs of a formula, and their addresses.
template <class T, class F, int inputs>
struct MapTensors {
  static constexpr int results = result_count<F>, operands = results + inputs;
  std::array<const Tensor*, operands> tensors;
  std::array<T*, operands> first;

  MapTensors(Tensor* const* out, const Tensor* const* in) {
    for (int k = 0; k < results; ++k) tensors[k] = out[k], first[k] = out[k]->template mutable_data<T>();
    for (int k = 0; k < inputs; ++k)
      tensors[results + k] = in[k], first[results + k] = const_cast<T*>(in[k]->template data<T>());
  }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Tensor* x : tensors) sum += traffic(*x);
    return sum;
  }
  auto loop() const { return MapOperands<T, operands>(plan_loop<operands>(tensors[0]->shape(), tensors), first); }
};

/// The CompiledMap of functors of type F with this number of inputs: a kernel for each group.
template <class F, int inputs>
void map_each(const void* functor, std::span<const MapGroup> groups) {
  const F& f = *static_cast<const F*>(functor);
  for (const MapGroup& group : groups)
    visit_real(F::name, group.out[0]->dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const MapTensors<T, F, inputs> tensors(group.out, group.in);
      const auto operands = tensors.loop();
      launch(F::name, tensors.bytes(), map_strided<T, F, inputs>, {blocks_for(operands.loop.runs())}, f, operands);
    });
}
/// Compiles them for functors of a list, and for their derivatives of the given orders.
template <int... orders, class List>
bool compile_maps(List list) {
  for_functors<orders...>(
      list, []<class F, int inputs>(TypedFunctor<F, inputs>) { compiled_maps()[typeid(F)] = map_each<F, inputs>; });
  return true;
}

}  // namespace fovea::cuda
