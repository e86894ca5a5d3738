/// The CPU's loops for `map`, which applies a functor to every element of its tensors. A loop is compiled for each
/// functor.
#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "tensor/cpu/simd.h"
#include "tensor/formula/functor_list.h"
#include "tensor/map_formula.h"
#include "tensor/tensor.h"

namespace fovea::cpu {

/// Loads `count` elements that lie `step` apart, at most as many as a vector has lanes. The lanes beyond `count` hold 0
/// or a copy of the first element, so that a functor can be evaluated there too.
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

/// Applies `f` to the elements of one row, always in vectors: the last vector is partly filled, and the elements of
/// strided operands are gathered. So an element's result does not depend on its position in memory. `operand` holds the
/// addresses of the results, then of the inputs; `step` holds the distance between neighbouring elements of each. The
/// functor and the addresses are copied to local variables, which stay in registers; the compiler would otherwise have
/// to assume that storing a result changes them. Second derivatives are rare, so they do without the loop for
/// contiguous operands.
template <class T, class F, std::size_t... r, std::size_t... i>
void map_row(F f, T* const* operand, const std::int64_t* step, std::int64_t count, std::index_sequence<r...>,
             std::index_sequence<i...>) {
  using V = Vec<T>;
  constexpr std::size_t inputs_from = sizeof...(r);
  T* const to[] = {operand[r]...};
  const T* const from[] = {operand[inputs_from + i]...};
  std::int64_t e = 0;
  if constexpr (derivative_order<F> < 2) {
    constexpr std::size_t own = sizeof...(i) - shared_inputs_of<F>;  // the inputs after these have one element
    if (((step[r] == 1) && ...) && ((i >= own || step[inputs_from + i] == 1) && ...)) {
      const std::array<V, sizeof...(i)> shared{(i >= own ? V(*from[i]) : V{})...};
      for (; e + V::lanes <= count; e += V::lanes) {
        const auto y = f((i >= own ? shared[i] : V::load(from[i] + e))...);
        (result<r>(y).store(to[r] + e), ...);
      }
    }
  }
  for (; e < count; e += V::lanes) {
    const int lanes = static_cast<int>(std::min<std::int64_t>(V::lanes, count - e));
    const auto y = f(load_lanes(from[i] + e * step[inputs_from + i], step[inputs_from + i], lanes)...);
    (store_lanes(result<r>(y), to[r] + e * step[r], step[r], lanes), ...);
  }
}

/// The RowFunction of functors of type F.
template <class T, class F, int inputs>
void map_row_of(const void* f, T* const* operand, const std::int64_t* step, std::int64_t count) {
  map_row<T>(*static_cast<const F*>(f), operand, step, count, std::make_index_sequence<result_count<F>>{},
             std::make_index_sequence<inputs>{});
}

}  // namespace fovea::cpu
