/// Applies a functor to tensors element by element, with broadcasting, on every device: the functors of
/// formula/functors.h, whose kernels the library has, and functors of your own (map_formula.h).
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/cpu/map_loop.h"
#include "tensor/formula/recorded.h"
#include "tensor/formula/several_formulas.h"
#include "tensor/kernels.h"
#include "tensor/map_formula.h"
#include "tensor/tensor.h"

namespace fovea {

/// Addresses of the input tensors.
using MapOperands = const Tensor* const*;
/// Runs, on the device of `out`, the kernel of the functor at `place` in ElementwiseFunctors (`order` 0), or of its
/// first or second derivative (`order` 1 or 2).
void run_listed_map(int place, int order, const void* functor, Tensor* out, MapOperands in);
/// Runs, on the device of the results, the kernel of the formula at `place` in SeveralFormulas, with that name and
/// number of results. Groups whose results have no elements are left out. Throws Error for results that are expanded
/// views.
void run_several(int place, const char* name, int results, const void* formula, std::vector<MapGroup>& groups);
/// Runs, on the device of the first result, the kernel of a functor that is in no list.
void run_unlisted_map(const MapFormula& formula, const void* functor, Tensor* const* out, MapOperands in);

/// The MapFormula of functors of type F with this number of inputs.
template <class F, int inputs>
inline constexpr MapFormula map_formula_of{
    F::name,
    !std::is_trivially_copyable_v<F> ? -1
    : std::is_empty_v<F>             ? 0
                                     : static_cast<std::int64_t>(sizeof(F)),
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

/// Throws Error unless all inputs have the type and device of `out`, and broadcast to its shape, and `out` has no
/// expanded dimension.
void require_operands(const char* name, const Tensor& out, const Tensor* const* in, int n);
/// Returns an uninitialised tensor of the shape that the inputs broadcast to, with the type and device of the first.
Tensor empty_map_result(const char* name, const Tensor* const* in, int n);
/// Whether one of the inputs shares memory with `out` without being the same view, so that writing `out` element by
/// element could overwrite elements that are still to be read.
bool overlaps_inputs(const Tensor& out, const Tensor* const* in, int n);

/// Writes f(in...) into `out`, to whose shape the inputs must broadcast. `out` may be one of the inputs, or overlap
/// them. Throws Error if `out` is an expanded view.
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

/// The operands of one application of a formula of the list SeveralFormulas.
template <class F>
struct SeveralOperands {
  std::array<Tensor*, F::results> out;
  std::array<const Tensor*, F::inputs> in;
};

/// Computes out... = f(in...), element by element, for a formula of the list SeveralFormulas and each group of
/// operands; a GPU computes many groups with one kernel. All operands are on one device. Those of one group have one
/// shape and type, and any strides; the shared inputs of the formula have one element. A result may be the same view as
/// an input; an input that a result of its group overlaps in another order is copied first. Groups must not share
/// memory that one of them changes.
template <class F>
void map_several(const F& f, std::vector<SeveralOperands<F>> groups) {
  std::deque<Tensor> copies;
  std::vector<MapGroup> operands;
  operands.reserve(groups.size());
  for (SeveralOperands<F>& group : groups) {
    for (const Tensor*& x : group.in)
      for (const Tensor* y : group.out)
        if (y->overlaps(*x)) x = &copies.emplace_back(x->clone());
    operands.push_back({group.out.data(), group.in.data()});
  }
  run_several(place_of<F>(formula::SeveralFormulas{}), F::name, F::results, &f, operands);
}
/// The same for one group of operands.
template <class F>
void map_several(const F& f, const std::array<Tensor*, F::results>& out,
                 const std::array<const Tensor*, F::inputs>& in) {
  map_several(f, std::vector<SeveralOperands<F>>{{out, in}});
}

}  // namespace fovea
