/// Applies a functor to tensors element by element, with broadcasting: the functors of formula/functors.h on every
/// device, and functors of your own on the CPU.
#pragma once
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "tensor/cpu/map_loop.h"
#include "tensor/formula/several_formulas.h"
#include "tensor/tensor.h"

namespace fovea {

/// Addresses of the input tensors.
using MapOperands = const Tensor* const*;
/// Runs, on the device of `out`, the kernel of the functor at `place` in ElementwiseFunctors (`order` 0), or of its
/// first or second derivative (`order` 1 or 2).
void run_listed_map(int place, int order, const void* functor, Tensor* out, MapOperands in);
/// Runs, on the device of the first result, the kernel of the formula at `place` in SeveralFormulas.
void run_several(int place, const void* formula, Tensor* const* out, MapOperands in);
/// Throws Error unless `out` is on the CPU. A functor that is in no list is compiled for the CPU only.
void require_cpu_for_map(const char* name, const Tensor& out);

/// Throws Error unless all inputs have the type and device of `out`, and broadcast to its shape.
void require_operands(const char* name, const Tensor& out, const Tensor* const* in, int n);
/// Returns an uninitialised tensor of the shape that the inputs broadcast to, with the type and device of the first.
Tensor empty_map_result(const char* name, const Tensor* const* in, int n);
/// Whether one of the inputs shares memory with `out` without being the same view, so that writing `out` element by
/// element could overwrite elements that are still to be read.
bool overlaps_inputs(const Tensor& out, const Tensor* const* in, int n);

/// Writes f(in...) into `out`, to whose shape the inputs must broadcast. `out` may be one of the inputs, or overlap
/// them.
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

/// Returns f(in...), computed element by element on inputs that broadcast to one shape. The inputs are all f32 or all
/// f64, on one device.
template <class F, class... In>
requires(std::is_same_v<In, Tensor>&&...) Tensor map(const F& f, const In&... in) {
  const std::array<const Tensor*, sizeof...(In)> inputs{&in...};
  Tensor out = empty_map_result(F::name, inputs.data(), sizeof...(In));
  map_into(out, f, in...);
  return out;
}

/// Computes out... = f(in...), element by element, for a formula of the list SeveralFormulas, which has several
/// results. All operands have one shape, type and device, and any strides. A result may be the same view as an input;
/// an input that a result overlaps in another order is copied first.
template <class F>
void map_several(const F& f, const std::array<Tensor*, F::results>& out,
                 const std::array<const Tensor*, F::inputs>& in) {
  std::array<Tensor, F::inputs> copies;
  std::array<const Tensor*, F::inputs> operands = in;
  for (std::size_t k = 0; k < F::inputs; ++k)
    for (const Tensor* y : out)
      if (y->overlaps(*in[k])) operands[k] = &(copies[k] = in[k]->clone());
  run_several(place_of<F>(formula::SeveralFormulas{}), &f, out.data(), operands.data());
}

}  // namespace fovea
