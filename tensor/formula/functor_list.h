/// Visiting the element-wise formulas of functors.h and their derivatives: for compiling kernels once, and for tests.
#pragma once
#include <type_traits>

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

/// A functor's type and its number of inputs, as an argument.
template <class F, int inputs>
struct TypedFunctor {};

/// Calls body(TypedFunctor<F, number of inputs>{}) for the derivatives of these orders, 0 to 2, of a list's functors.
template <int... orders, class... F, class Body>
void for_functors(FunctorList<F...>, const Body& body) {
  auto call = [&]<class Functor, int order>(std::type_identity<Functor>, std::integral_constant<int, order>) {
    constexpr int inputs = arity<Functor> + order;
    if constexpr (order == 0) body(TypedFunctor<Functor, inputs>{});
    if constexpr (order == 1) body(TypedFunctor<Derivative<Functor>, inputs>{});
    if constexpr (order == 2) body(TypedFunctor<SecondDerivative<Functor>, inputs>{});
  };
  auto call_all = [&](auto order) { (call(std::type_identity<F>{}, order), ...); };
  (call_all(std::integral_constant<int, orders>{}), ...);
}

}  // namespace fovea
