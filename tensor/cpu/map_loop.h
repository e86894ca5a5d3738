/// The CPU's loop over the elements of a map: compiled once for every functor.
#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "tensor/formula/functors.h"
#include "tensor/tensor.h"

namespace fovea::cpu {

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
/// does not depend on where it lies. The functor and the starts are copies, which stay in
/// registers: `out` might alias anything else. Second derivatives are
/// rare: they go without the loop for contiguous operands.
template <class T, class F, std::size_t... k>
void map_row(F f, T* out, std::int64_t out_step, const T* const* in, const std::int64_t* step, std::int64_t count,
             std::index_sequence<k...>) {
  using V = Vec<T>;
  std::int64_t i = 0;
  if constexpr (derivative_order<F> < 2) {
    if (out_step == 1 && ((step[k] == 1) && ...))
      for (const T* const from[] = {in[k]...}; i + V::lanes <= count; i += V::lanes)
        f(V::load(from[k] + i)...).store(out + i);
  }
  for (; i < count; i += V::lanes) {
    int lanes = static_cast<int>(std::min<std::int64_t>(V::lanes, count - i));
    store_lanes(f(load_lanes(in[k] + i * step[k], step[k], lanes)...), out + i * out_step, out_step, lanes);
  }
}

/// Enough for the second derivative of a functor with ten captures.
inline constexpr int most_map_inputs = 15;

/// A row of some functor: its operands' starts, and how far their elements lie apart.
template <class T>
using RowFunction = void (*)(const void* f, T* out, std::int64_t out_step, const T* const* in, const std::int64_t* step,
                             std::int64_t count);

/// Calls `row` for the rows of the loop over `out` and its n broadcast inputs, on several threads where that pays: the
/// part of a map that no functor changes, compiled once. T is float or double.
template <class T>
void map_rows(RowFunction<T> row, const void* f, Tensor& out, const Tensor* const* in, int n);

/// out = f(in...), element by element, for f32 and f64; inputs broadcast to out's shape.
template <class F, int n>
void map_elements(const F& f, Tensor& out, const Tensor* const* in) {
  static_assert(n <= most_map_inputs);
  visit_real(F::name, out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    RowFunction<T> row = [](const void* f, T* out, std::int64_t out_step, const T* const* in, const std::int64_t* step,
                            std::int64_t count) {
      map_row<T>(*static_cast<const F*>(f), out, out_step, in, step, count, std::make_index_sequence<n>{});
    };
    map_rows<T>(row, &f, out, in, n);
  });
}

}  // namespace fovea::cpu
