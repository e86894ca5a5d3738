/// The CPU's loop over the elements of a map: compiled once for every functor.
#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "tensor/cpu/simd.h"
#include "tensor/formula/functor_list.h"
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
/// does not depend on where it lies. `operand` has the addresses of the results, then of the inputs. The functor and
/// the addresses are copies, which stay in registers: a result might alias anything else. Second derivatives are rare:
/// they go without the loop for contiguous operands.
template <class T, class F, std::size_t... r, std::size_t... i>
void map_row(F f, T* const* operand, const std::int64_t* step, std::int64_t count, std::index_sequence<r...>,
             std::index_sequence<i...>) {
  using V = Vec<T>;
  constexpr std::size_t inputs_from = sizeof...(r);
  T* const to[] = {operand[r]...};
  const T* const from[] = {operand[inputs_from + i]...};
  std::int64_t e = 0;
  if constexpr (derivative_order<F> < 2) {
    if (((step[r] == 1) && ...) && ((step[inputs_from + i] == 1) && ...))
      for (; e + V::lanes <= count; e += V::lanes) {
        const auto y = f(V::load(from[i] + e)...);
        (result<r>(y).store(to[r] + e), ...);
      }
  }
  for (; e < count; e += V::lanes) {
    const int lanes = static_cast<int>(std::min<std::int64_t>(V::lanes, count - e));
    const auto y = f(load_lanes(from[i] + e * step[inputs_from + i], step[inputs_from + i], lanes)...);
    (store_lanes(result<r>(y), to[r] + e * step[r], step[r], lanes), ...);
  }
}

/// Enough for the second derivative of a functor with ten captures.
inline constexpr int most_map_operands = 16;

/// A row of some functor: addresses of its results, then of its inputs, and how far the elements of each lie apart.
template <class T>
using RowFunction = void (*)(const void* f, T* const* operand, const std::int64_t* step, std::int64_t count);

/// Calls `row` for the rows of the loop over the results, all of one shape, and the broadcast inputs, on several
/// threads where that pays: the part of a map that no functor changes, compiled once. T is float or double; `cost` is
/// an element's work in additions.
template <class T>
void map_rows(RowFunction<T> row, const void* f, Tensor* const* out, int results, const Tensor* const* in, int inputs,
              std::int64_t cost);

/// out... = f(in...), element by element, for f32 and f64; inputs broadcast to the results' shape.
template <class F, int inputs>
void map_elements(const F& f, Tensor* const* out, const Tensor* const* in) {
  static_assert(result_count<F> + inputs <= most_map_operands);
  visit_real(F::name, out[0]->dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    RowFunction<T> row = [](const void* f, T* const* operand, const std::int64_t* step, std::int64_t count) {
      map_row<T>(*static_cast<const F*>(f), operand, step, count, std::make_index_sequence<result_count<F>>{},
                 std::make_index_sequence<inputs>{});
    };
    map_rows<T>(row, &f, out, result_count<F>, in, inputs, cost_of<F>);
  });
}

}  // namespace fovea::cpu
