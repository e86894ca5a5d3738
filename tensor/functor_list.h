/// Visiting the element-wise formulas of functors.h and their derivatives: for compiling kernels once, and for tests.
#pragma once
#include <type_traits>
#include <utility>

#include "tensor/functors.h"

namespace fovea {

/// How many arguments a functor of the list takes: the smallest number of doubles it can be called with.
template <class F, class... Arguments>
consteval int arity_of() {
  if constexpr (std::is_invocable_v<F, Arguments...>)
    return sizeof...(Arguments);
  else
    return arity_of<F, double, Arguments...>();
}
template <class F>
inline constexpr int arity = arity_of<F, double>();

template <int order, class F, int n, class Visitor>
void for_derivatives(Visitor& visitor);

template <int order, class F, int n, class Visitor, int... k>
void for_each_derivative(Visitor& visitor, std::integer_sequence<int, k...>) {
  (for_derivatives<order - 1, Derivative<F, k>, n + 1>(visitor), ...);
}

/// Visits F's derivatives of the given order: visitor.template visit<Functor, number of inputs>().
template <int order, class F, int n, class Visitor>
void for_derivatives(Visitor& visitor) {
  if constexpr (order == 0)
    visitor.template visit<F, n>();
  else
    for_each_derivative<order, F, n>(visitor, std::make_integer_sequence<int, n>{});
}

/// The same for every functor of a list.
template <int order, class Visitor, class... F>
void for_functors(Visitor& visitor, FunctorList<F...>) {
  (for_derivatives<order, F, arity<F>>(visitor), ...);
}

}  // namespace fovea
