/// Element-wise application of a functor to tensors: one loop for every formula of functors.h and for your own.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>
#include <utility>

#include "tensor/cuda_map.h"
#include "tensor/element_loop.h"
#include "tensor/functors.h"
#include "tensor/parallel.h"
#include "tensor/tensor.h"

namespace fovea {

/// out = f(in...), element by element; inputs broadcast to out's shape. Compiled into the library for listed functors.
template <class F, int n>
struct MapKernel {
  static void run(const F& f, Tensor& out, const std::array<const Tensor*, n>& in);
};

/// Up to a vector's lanes from memory of any stride; the lanes beyond `count` hold numbers that do no harm.
template <class T>
FOVEA_INLINE Vec<T> load_lanes(const T* from, std::int64_t step, int count) {
  if (step == 1) return count == Vec<T>::lanes ? Vec<T>::load(from) : Vec<T>::load_partial(from, count);
  if (step == 0) return Vec<T>(*from);
  T lanes[Vec<T>::lanes];
  for (int lane = 0; lane < Vec<T>::lanes; ++lane) lanes[lane] = from[lane < count ? lane * step : 0];
  return Vec<T>::load(lanes);
}

template <class T>
FOVEA_INLINE void store_lanes(Vec<T> values, T* to, std::int64_t step, int count) {
  if (step == 1 && count == Vec<T>::lanes) return values.store(to);
  for (int lane = 0; lane < count; ++lane) to[lane * step] = values[lane];
}

/// One row of the loop, always in vectors: the last one partly filled, strided operands gathered. An element's result
/// does not depend on where it lies. Second derivatives are rare: they go without the loop for contiguous operands.
template <class T, class F, std::size_t... k>
__attribute__((noinline)) void map_row(const F& f, T* out, std::int64_t out_step,
                                       const std::array<const T*, sizeof...(k)>& in,
                                       const std::array<std::int64_t, sizeof...(k)>& step, std::int64_t count,
                                       std::index_sequence<k...>) {
  using V = Vec<T>;
  std::int64_t i = 0;
  if constexpr (derivative_order<F> < 2) {
    if (out_step == 1 && ((step[k] == 1) && ...))
      for (; i + V::lanes <= count; i += V::lanes) f(V::load(in[k] + i)...).store(out + i);
  }
  for (; i < count; i += V::lanes) {
    int lanes = static_cast<int>(std::min<std::int64_t>(V::lanes, count - i));
    store_lanes(f(load_lanes(in[k] + i * step[k], step[k], lanes)...), out + i * out_step, out_step, lanes);
  }
}

/// Calls piece(offsets, begin, end) for the pieces of all rows of the loop, on several threads where that pays.
template <int operands>
void for_pieces(
    const ElementLoop<operands>& loop,
    const std::function<void(const std::array<std::int64_t, operands>&, std::int64_t, std::int64_t)>& piece) {
  std::int64_t count = loop.inner();
  if (loop.rows() < 16 && count > element_grain) {
    loop.for_rows(0, loop.rows(), [&](auto& offset) {
      parallel_for(count, element_grain, [&](std::int64_t begin, std::int64_t end) { piece(offset, begin, end); });
    });
  } else {
    parallel_for(loop.rows(), 1 + element_grain / (count + 1), [&](std::int64_t begin, std::int64_t end) {
      loop.for_rows(begin, end, [&](auto& offset) { piece(offset, 0, count); });
    });
  }
}

template <class T, class F, int n>
void map_on_cpu(const F& f, Tensor& out, const std::array<const Tensor*, n>& in) {
  std::array<const Tensor*, n + 1> operands{&out};
  std::array<const T*, n> first;
  std::array<std::int64_t, n> step;
  for (int k = 0; k < n; ++k) operands[k + 1] = in[k], first[k] = in[k]->template data<T>();
  T* to = out.data<T>();
  auto loop = plan_loop<n + 1>(out.shape(), operands);
  std::int64_t out_step = loop.strides[0][-1];
  for (int k = 0; k < n; ++k) step[k] = loop.strides[k + 1][-1];

  auto piece = [&](const std::array<std::int64_t, n + 1>& offset, std::int64_t begin, std::int64_t end) {
    std::array<const T*, n> from;
    for (int k = 0; k < n; ++k) from[k] = first[k] + offset[k + 1] + begin * step[k];
    map_row<T>(f, to + offset[0] + begin * out_step, out_step, from, step, end - begin, std::make_index_sequence<n>{});
  };
  for_pieces<n + 1>(loop, std::ref(piece));
}

template <class F, int n>
void run_map(const F& f, Tensor& out, const std::array<const Tensor*, n>& in) {
  if (out.elements() == 0) return;
  if (out.device() == Device::cuda) {
    require(cuda_map<F, n> != nullptr,
            "map: '{}' has no CUDA kernel; add it to ElementwiseFunctors in tensor/functors.h", F::name);
    return cuda_map<F, n>(f, out, in);
  }
  visit_real(F::name, out.dtype(), [&](auto type) { map_on_cpu<typename decltype(type)::type, F, n>(f, out, in); });
}

/// Writes f(in...) into `out`, which must have the broadcast shape; out may be one of the inputs.
template <class F, class... In>
void map_into(Tensor& out, const F& f, const In&... in) {
  constexpr int n = sizeof...(In);
  const std::array<const Tensor*, n> inputs{&in...};
  for (const Tensor* x : inputs)
    require(x->defined() && x->dtype() == out.dtype() && x->device() == out.device(),
            "{}: the operands differ: {} on {} and {} on {}; cast or move one of them", F::name, out,
            name(out.device()), x->describe(), name(x->device()));
  out.changed();
  if constexpr (is_listed<F>)
    MapKernel<F, n>::run(f, out, inputs);
  else
    run_map<F, n>(f, out, inputs);
}

/// f(in...) element by element, broadcasting; f32 or f64, all of one type and device.
template <class F, class... In>
requires(std::is_same_v<In, Tensor>&&...) Tensor map(const F& f, const Tensor& first, const In&... in) {
  Shape shape = first.shape();
  ((shape = broadcast(F::name, shape, in.shape())), ...);
  Tensor out = Tensor::empty(shape, first.dtype(), first.device());
  map_into(out, f, first, in...);
  return out;
}

}  // namespace fovea
