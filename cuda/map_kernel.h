/// The GPU's kernels for `map`: they apply an element-wise formula of tensor/formula to the elements of tensors.
#pragma once
#include <algorithm>
#include <array>

#include "cuda/launch.h"
#include "cuda/map_operands.h"
#include "tensor/provide.h"

namespace fovea::cuda {

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

/// Computes out... = f(in...), element by element, for f32 and f64; inputs broadcast to the results' shape.
template <class F, int inputs>
void map_tensors(const F& f, Tensor* const* out, const Tensor* const* in) {
  visit_real(F::name, out[0]->dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const MapTensors<T, F, inputs> tensors(out, in);
    const auto operands = tensors.loop();
    launch(F::name, tensors.bytes(), map_strided<T, F, inputs>, {blocks_for(operands.loop.runs())}, f, operands);
  });
}

}  // namespace fovea::cuda
