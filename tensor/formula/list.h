/// Lists of formulas as types, so that kernels and tests can be instantiated for each formula of a list, and properties
/// of a formula: its place in the list, its number of results, its cost.
#pragma once
#include <array>
#include <type_traits>

#include "tensor/formula/target.h"

namespace fovea {

template <class... Formulas>
struct FunctorList {};

/// Returns the position of F in the list, counted from 0. Does not compile if F is not in the list.
template <class F, class... Functors>
consteval int place_of(FunctorList<Functors...>) {
  int place = 0;
  const bool is_there = ((std::is_same_v<F, Functors> || (++place, false)) || ...);
  if (!is_there) throw "the type is not in the list: formulas are added there by name, tensors have few element types";
  return place;
}

template <class... A, class... B>
FunctorList<A..., B...> joined(FunctorList<A...>, FunctorList<B...>);
/// The list of the formulas of two lists.
template <class A, class B>
using Joined = decltype(joined(A{}, B{}));

/// The number of results of a formula: its member `results`, or 1 if it has no such member.
template <class F>
inline constexpr int result_count = [] {
  if constexpr (requires { F::results; })
    return F::results;
  else
    return 1;
}();
/// The work of a formula for one element, in additions: its member `cost`, or 1 if it has no such member.
template <class F>
inline constexpr int cost_of = [] {
  if constexpr (requires { F::cost; })
    return F::cost;
  else
    return 1;
}();

/// The number of inputs of a formula, its last ones, that have one value for all elements: its member `shared_inputs`,
/// or 0 if it has no such member.
template <class F>
inline constexpr int shared_inputs_of = [] {
  if constexpr (requires { F::shared_inputs; })
    return F::shared_inputs;
  else
    return 0;
}();

/// Returns result k of a formula from its return value, which is one number or an array of several.
template <std::size_t k, class T>
FOVEA_HD FOVEA_INLINE const T& result(const T& only) {
  return only;
}
template <std::size_t k, class T, std::size_t n>
FOVEA_HD FOVEA_INLINE const T& result(const std::array<T, n>& several) {
  return several[k];
}

}  // namespace fovea
