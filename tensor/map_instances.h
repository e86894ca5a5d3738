/// Compiling the listed functors once, into the library: a table of addresses makes the compiler emit every kernel.
#pragma once
#include <vector>

#include "tensor/map.h"

namespace fovea {

template <class F, int n>
void MapKernel<F, n>::run(const F& f, Tensor& out, const std::array<const Tensor*, n>& in) {
  run_map<F, n>(f, out, in);
}

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

/// Visits F's derivatives of the given order: visitor.template visit<Functor, number of inputs>().
template <int order, class F, int n, class Visitor>
void for_derivatives(Visitor& visitor) {
  if constexpr (order == 0)
    visitor.template visit<F, n>();
  else
    [&]<int... k>(std::integer_sequence<int, k...>) {
      (for_derivatives<order - 1, Derivative<F, k>, n + 1>(visitor), ...);
    }
  (std::make_integer_sequence<int, n>{});
}

template <int order, class Visitor, class... F>
void for_functors(Visitor& visitor, FunctorList<F...>) {
  (for_derivatives<order, F, arity<F>>(visitor), ...);
}

struct KernelAddresses {
  std::vector<void (*)()> addresses;
  template <class F, int n>
  void visit() {
    addresses.push_back(reinterpret_cast<void (*)()>(&MapKernel<F, n>::run));
  }
};

}  // namespace fovea
