/// Fills the entries of a device's kernel table (kernels.h) for whole lists of formulas, one entry for each formula.
#pragma once
#include "tensor/formula/functor_list.h"
#include "tensor/kernels.h"

namespace fovea {

/// Fills the entries of all formulas of `list`. The entry of formula F becomes a function whose first argument is the
/// address of an F, f, without its type: it calls run(f, the other arguments...).
template <class Entries, class... F, class Run>
void provide_list(Entries& entries, FunctorList<F...> list, Run) {
  (entries[place_of<F>(list)].template call<F, Run>(), ...);
}

/// Sets the entries in `table.maps` for the derivatives of the given orders of all ElementwiseFunctors (order 0 is the
/// functor itself) to functions that call run(f, number_of_inputs, out, in), where number_of_inputs is a
/// std::integral_constant.
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
