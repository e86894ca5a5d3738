/// Filling the entries of a device's table that belong to lists of formulas.
#pragma once
#include "tensor/formula/functor_list.h"
#include "tensor/kernels.h"

namespace fovea {

/// Fills the entries of a list of formulas with calls of run(f, arguments...), f of the entry's type.
template <class Entries, class... F, class Run>
void provide_list(Entries& entries, FunctorList<F...> list, Run) {
  (entries[place_of<F>(list)].template call<F, Run>(), ...);
}

/// Fills the entries of the listed functors' derivatives of these orders (0: the functors themselves) with calls of
/// run(f, the number of inputs as a constant, out, in).
template <int... orders, class Run>
void provide_maps(Kernels& table, Run) {
  for_functors<orders...>(ElementwiseFunctors{}, [&]<class F, int inputs>(TypedFunctor<F, inputs>) {
    constexpr int place = place_of<typename UnderlyingFunctor<F>::type>(ElementwiseFunctors{});
    table.maps[3 * place + derivative_order<F>] = [](const void* f, Tensor* const* out, const Tensor* const* in) {
      Run{}(*static_cast<const F*>(f), std::integral_constant<int, inputs>{}, out, in);
    };
  });
}

}  // namespace fovea
