/// Lists of formulas, for every device: kernels are compiled, and tests are made, once for each formula of a list.
#pragma once
#include <array>
#include <type_traits>

#include "tensor/formula/target.h"

namespace fovea {

template <class... Formulas>
struct FunctorList {};

template <class... F>
consteval int count_of(FunctorList<F...>) {
  return sizeof...(F);
}

/// F's place in the list, which has it.
template <class F, class... Functors>
consteval int place_of(FunctorList<Functors...>) {
  int place = 0;
  static_cast<void>(((std::is_same_v<F, Functors> || (++place, false)) || ...));
  return place;
}

/// How many results a formula has: as many as its `results`, or one.
template <class F>
inline constexpr int result_count = [] {
  if constexpr (requires { F::results; })
    return F::results;
  else
    return 1;
}();
/// The work of one element in additions: `cost`, or 1.
template <class F>
inline constexpr int cost_of = [] {
  if constexpr (requires { F::cost; })
    return F::cost;
  else
    return 1;
}();

/// Result k of a formula, from what the formula returned: a number, or an array of several.
template <std::size_t k, class T>
FOVEA_HD FOVEA_INLINE const T& result(const T& only) {
  return only;
}
template <std::size_t k, class T, std::size_t n>
FOVEA_HD FOVEA_INLINE const T& result(const std::array<T, n>& several) {
  return several[k];
}

}  // namespace fovea
