/// map on the GPU: the functors of tensor/formula/functors.h, on scalars.
#pragma once
#include "cuda/launch.h"
#include "tensor/formula/functor_list.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

template <class T, class F, std::size_t... k>
__global__ void map_elements(F f, DeviceLoop<sizeof...(k) + 1> loop, T* out, std::array<const T*, sizeof...(k)> in,
                             std::index_sequence<k...>) {
  for_elements(loop.count, [&](std::int64_t element) {
    std::int64_t offset[sizeof...(k) + 1];
    loop.offsets(element, offset);
    out[offset[0]] = f(in.data()[k][offset[k + 1]]...);
  });
}

template <class T, class F, std::size_t... k>
void launch_map(const F& f, const DeviceLoop<sizeof...(k) + 1>& loop, T* out,
                const std::array<const T*, sizeof...(k)>& in, std::index_sequence<k...> inputs) {
  launch(F::name, map_elements<T, F, k...>, {blocks_for(loop.count)}, f, loop, out, in, inputs);
}

template <class F, int n>
void map_tensors(const F& f, Tensor& out, const Tensor* const* in) {
  visit_real(F::name, out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::array<const Tensor*, n + 1> operands{&out};
    std::array<const T*, n> first;
    for (int k = 0; k < n; ++k) operands[k + 1] = in[k], first[k] = in[k]->template data<T>();
    DeviceLoop<n + 1> loop(plan_loop<n + 1>(out.shape(), operands));
    launch_map<T>(f, loop, out.mutable_data<T>(), first, std::make_index_sequence<n>{});
  });
}

/// Fills the entries of what it visits (for_functors).
struct ProvideMaps {
  Kernels& table;
  template <class F, int n>
  void visit() {
    constexpr int place = place_of<typename UnderlyingFunctor<F>::type>(ElementwiseFunctors{});
    table.maps[place][derivative_order<F>] = [](const void* functor, Tensor& out, const Tensor* const* in) {
      map_tensors<F, n>(*static_cast<const F*>(functor), out, in);
    };
  }
};

}  // namespace fovea::cuda
