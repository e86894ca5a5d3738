/// Applies a functor to tensors element by element, with broadcasting, on every device: the functors of
/// formula/functors.h, whose kernels the library has, and functors of your own (map_formula.h).
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <utility>

#include "tensor/cpu/map_loop.h"
#include "tensor/formula/recorded.h"
#include "tensor/formula/several_formulas.h"
#include "tensor/map_formula.h"
#include "tensor/tensor.h"

namespace fovea {

/// Addresses of the input tensors.
using MapOperands = const Tensor* const*;
/// Runs, on the device of `out`, the kernel of the functor at `place` in ElementwiseFunctors (`order` 0), or of its
/// first or second derivative (`order` 1 or 2).
void run_listed_map(int place, int order, const void* functor, Tensor* out, MapOperands in);
/// Runs, on the device of the first result, the kernel of the formula at `place` in SeveralFormulas.
void run_several(int place, const void* formula, Tensor* const* out, MapOperands in);
/// Runs, on the device of the first result, the kernel of a functor that is in no list.
void run_unlisted_map(const MapFormula& formula, const void* functor, Tensor* const* out, MapOperands in);

/// The MapFormula of functors of type F with this number of inputs.
template <class F, int inputs>
inline constexpr MapFormula map_formula_of{
    F::name,
    result_count<F>,
    inputs,
    cost_of<F>,
    cpu::map_row_of<float, F, inputs>,
    cpu::map_row_of<double, F, inputs>,
    [](const void* f) {
      return record_expression(inputs, [f](std::span<const Recorded> x) {
        return [&]<std::size_t... k, std::size_t... r>(std::index_sequence<k...>, std::index_sequence<r...>) {
          const auto y = (*static_cast<const F*>(f))(x[k]...);
          return std::vector<Recorded>{result<r>(y)...};
        }
        (std::make_index_sequence<inputs>{}, std::make_index_sequence<result_count<F>>{});
      });
    },
    [](const void* f) -> std::shared_ptr<const void> { return std::make_shared<F>(*static_cast<const F*>(f)); },
};

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
    Tensor* const outputs[] = {&out};
    run_unlisted_map(map_formula_of<F, n>, &f, outputs, inputs.data());
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
