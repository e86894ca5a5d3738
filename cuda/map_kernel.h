/// The GPU's kernel for `map`: applies an element-wise formula of tensor/formula to the elements of tensors, one scalar
/// per thread at a time.
#pragma once
#include <algorithm>
#include <array>

#include "cuda/launch.h"
#include "tensor/provide.h"

namespace fovea::cuda {

template <class T, class F, std::size_t... r, std::size_t... i>
__device__ void map_element(const F& f, T* const* out, const T* const* in, const std::int64_t* offset,
                            std::index_sequence<r...>, std::index_sequence<i...>) {
  const auto y = f(in[i][offset[sizeof...(r) + i]]...);
  ((out[r][offset[r]] = result<r>(y)), ...);
}

template <class T, class F, int inputs>
__global__ void map_elements(F f, DeviceLoop<result_count<F> + inputs> loop, std::array<T*, result_count<F>> out,
                             std::array<const T*, inputs> in) {
  for_elements(loop.count, [&](std::int64_t element) {
    std::int64_t offset[result_count<F> + inputs];
    loop.offsets(element, offset);
    map_element<T>(f, out.data(), in.data(), offset, std::make_index_sequence<result_count<F>>{},
                   std::make_index_sequence<inputs>{});
  });
}

/// Computes out... = f(in...), element by element, for f32 and f64; inputs broadcast to the results' shape.
template <class F, int inputs>
void map_tensors(const F& f, Tensor* const* out, const Tensor* const* in) {
  constexpr int results = result_count<F>;
  std::array<const Tensor*, results + inputs> operands;
  std::copy_n(out, results, operands.begin());
  std::copy_n(in, inputs, operands.begin() + results);
  DeviceLoop<results + inputs> loop(plan_loop<results + inputs>(out[0]->shape(), operands));
  visit_real(F::name, out[0]->dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::array<T*, results> to;
    std::array<const T*, inputs> from;
    for (int k = 0; k < results; ++k) to[k] = out[k]->template mutable_data<T>();
    for (int k = 0; k < inputs; ++k) from[k] = in[k]->template data<T>();
    launch(F::name, map_elements<T, F, inputs>, {blocks_for(loop.count)}, f, loop, to, from);
  });
}

}  // namespace fovea::cuda
