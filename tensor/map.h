/// Element-wise application of a functor to tensors: one loop for every formula of functors.h and for your own.
#pragma once
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "tensor/cpu/map_loop.h"
#include "tensor/formula/several_formulas.h"
#include "tensor/tensor.h"

namespace fovea {

/// The kernel of a listed functor or of its derivative, and of a listed formula with several results, on out's device.
using MapOperands = const Tensor* const*;
void run_listed_map(int place, int order, const void* functor, Tensor* out, MapOperands in);
void run_several(int place, const void* formula, Tensor* const* out, MapOperands in);
/// For a functor that is in no list, and so has a kernel on the CPU alone: throws for tensors on another device.
void require_cpu_for_map(const char* name, const Tensor& out);

/// Throws unless all inputs have out's type and device, and broadcast to its shape.
void require_operands(const char* name, const Tensor& out, const Tensor* const* in, int n);
/// An empty tensor of the shape that the inputs broadcast to.
Tensor empty_map_result(const char* name, const Tensor* const* in, int n);
/// Whether one of the inputs shares memory with out in another order.
bool overlaps_inputs(const Tensor& out, const Tensor* const* in, int n);

/// Writes f(in...) into `out`, which must have the broadcast shape; out may be one of the inputs, or overlap them.
template <class F, class... In>
void map_into(Tensor& out, const F& f, const In&... in) {
  constexpr int n = sizeof...(In);
  const std::array<const Tensor*, n> inputs{&in...};
  require_operands(F::name, out, inputs.data(), n);
  if (overlaps_inputs(out, inputs.data(), n)) {
    Tensor result = Tensor::empty(out.shape(), out.dtype(), out.device());
    map_into(result, f, in...);
    return out.copy_from(result);
  }
  if (out.elements() == 0) return;
  if constexpr (is_listed<F>) {
    run_listed_map(place_of<typename UnderlyingFunctor<F>::type>(ElementwiseFunctors{}), derivative_order<F>, &f, &out,
                   inputs.data());
  } else {
    require_cpu_for_map(F::name, out);
    Tensor* const outputs[] = {&out};
    cpu::map_elements<F, n>(f, outputs, inputs.data());
  }
}

/// f(in...) element by element, broadcasting; f32 or f64, all of one type and device.
template <class F, class... In>
requires(std::is_same_v<In, Tensor>&&...) Tensor map(const F& f, const In&... in) {
  const std::array<const Tensor*, sizeof...(In)> inputs{&in...};
  Tensor out = empty_map_result(F::name, inputs.data(), sizeof...(In));
  map_into(out, f, in...);
  return out;
}

/// out... = f(in...) for a formula of the list SeveralFormulas; all operands of one shape, type and device, of any
/// strides. A result may be one of the inputs, but must not overlap them in another order.
template <class F>
void map_several(const F& f, const std::array<Tensor*, F::results>& out,
                 const std::array<const Tensor*, F::inputs>& in) {
  run_several(place_of<F>(formula::SeveralFormulas{}), &f, out.data(), in.data());
}

}  // namespace fovea
