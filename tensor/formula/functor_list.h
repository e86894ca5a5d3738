/// Visiting the element-wise formulas of functors.h and their derivatives: for compiling kernels once, and for tests.
#pragma once
#include <type_traits>
#include <utility>

#include "tensor/formula/functors.h"

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

template <class... F>
consteval int count_of(FunctorList<F...>) {
  return sizeof...(F);
}
inline constexpr int functor_count = count_of(ElementwiseFunctors{});

/// F's place in the list, which has it.
template <class F, class... Functors>
consteval int place_of(FunctorList<Functors...>) {
  int place = 0;
  static_cast<void>(((std::is_same_v<F, Functors> || (++place, false)) || ...));
  return place;
}

/// Visits F's derivatives of the given order, 0 to 2: visitor.template visit<Functor, number of inputs>().
template <int order, class F, class Visitor>
void for_derivatives(Visitor& visitor) {
  if constexpr (order == 0)
    visitor.template visit<F, arity<F>>();
  else if constexpr (order == 1)
    visitor.template visit<Derivative<F>, arity<F> + 1>();
  else
    visitor.template visit<SecondDerivative<F>, arity<F> + 2>();
}

/// The same for every functor of a list.
template <int order, class Visitor, class... F>
void for_functors(Visitor& visitor, FunctorList<F...>) {
  (for_derivatives<order, F>(visitor), ...);
}

}  // namespace fovea
