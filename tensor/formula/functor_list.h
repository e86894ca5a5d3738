/// Visits the element-wise functors of a list and their derivatives at compile time, so that kernels and tests can be
/// instantiated for each of them.
#pragma once
#include <type_traits>

#include "tensor/formula/functor.h"

namespace fovea {

/// Returns the number of arguments of a functor: the smallest number of doubles it can be called with.
template <class F, class... Arguments>
consteval int arity_of() {
  if constexpr (std::is_invocable_v<F, Arguments...>)
    return sizeof...(Arguments);
  else
    return arity_of<F, double, Arguments...>();
}
template <class F>
inline constexpr int arity = arity_of<F, double>();

/// A functor's type and its number of inputs, as an empty value that can be passed to a lambda.
template <class F, int inputs>
struct TypedFunctor {};

/// Calls body(TypedFunctor<F, number of inputs>{}) for every functor of a list and each of the given `orders` of
/// derivative: 0 is the functor itself, 1 its Derivative, 2 its SecondDerivative.
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
