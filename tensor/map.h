/// Applies a functor to tensors element by element, with broadcasting, on every device: the functors of the library's
/// lists (formula/arithmetic.h, formula/functions.h), whose kernels it has compiled, and functors of your own, which
/// are compiled where map() is used, and for CUDA when they first run there.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tensor/cpu/map_loop.h"
#include "tensor/formula/recorded.h"
#include "tensor/kernels.h"
#include "tensor/map_formula.h"
#include "tensor/tensor.h"

namespace fovea {

template <class F, int inputs>
Expression expression_of(const void* f) {
  return record_expression(inputs, [f](std::span<const Recorded> x) {
    return [&]<std::size_t... k, std::size_t... r>(std::index_sequence<k...>, std::index_sequence<r...>) {
      const auto y = (*static_cast<const F*>(f))(x[k]...);
      return std::vector<Recorded>{result<r>(y)...};
    }
    (std::make_index_sequence<inputs>{}, std::make_index_sequence<result_count<F>>{});
  });
}
template <class F>
std::shared_ptr<const void> copy_of(const void* f) {
  return std::make_shared<F>(*static_cast<const F*>(f));
}

/// The MapFormula of functors of type F with this number of inputs, with the CPU's loops.
template <class F, int inputs>
inline constexpr MapFormula map_formula_of = [] {
  MapFormula made{F::name,
                  &typeid(F),
                  !std::is_trivially_copyable_v<F> ? -1
                  : std::is_empty_v<F>             ? 0
                                                   : static_cast<std::int64_t>(sizeof(F)),
                  result_count<F>,
                  inputs,
                  cost_of<F>,
                  cpu::map_row_of<float, F, inputs>,
                  cpu::map_row_of<double, F, inputs>};
  if constexpr (!is_listed<F>) made.expression = expression_of<F, inputs>, made.copy = copy_of<F>;
  return made;
}();

/// The MapFormula of a listed functor type, whose loops are compiled in one file of the library.
const MapFormula& listed_formula(const std::type_info& type);
/// Makes a formula known to listed_formula().
void list_formula(const MapFormula& formula);
/// Compiles the CPU's loops for the formulas of a list and their derivatives of the given orders (0: the formulas
/// themselves), and makes them known to listed_formula(). Returns true.
template <int... orders, class List>
bool list_formulas(List list) {
  for_functors<orders...>(list, []<class F, int n>(TypedFunctor<F, n>) { list_formula(map_formula_of<F, n>); });
  return true;
}

template <class F, int inputs>
const MapFormula& map_formula() {
  if constexpr (is_listed<F>) {
    static const MapFormula& known = listed_formula(typeid(F));
    return known;
  } else {
    return map_formula_of<F, inputs>;
  }
}

/// Runs a formula on the device of its results.
void run_map(const MapFormula& formula, const void* functor, const MapGroup& group);
/// The same for several groups; leaves out those whose results have no elements. Throws Error unless all operands of a
/// group have one type and device, and one shape but for the last `shared_inputs`, all groups are on one device, and no
/// result is an expanded view.
void run_several(const MapFormula& formula, const void* functor, std::vector<MapGroup>& groups, int shared_inputs);

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
  Tensor* const outputs[] = {&out};
  run_map(map_formula<F, n>(), &f, MapGroup{outputs, inputs.data()});
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

/// The operands of one application of a formula that may have several results.
template <class F>
struct SeveralOperands {
  std::array<Tensor*, F::results> out;
  std::array<const Tensor*, F::inputs> in;
};

/// Computes out... = f(in...), element by element, for a formula that may have several results and each group of
/// operands; a GPU computes many groups with one kernel. All operands are on one device. Those of one group have one
/// shape and type, and any strides; the shared inputs of the formula have one element. Throws Error for others. A
/// result may be the same view as an input; an input that a result of its group overlaps in another order is copied
/// first. Groups must not share memory that one of them changes.
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
  run_several(map_formula<F, F::inputs>(), &f, operands, shared_inputs_of<F>);
}
/// The same for one group of operands.
template <class F>
void map_several(const F& f, const std::array<Tensor*, F::results>& out,
                 const std::array<const Tensor*, F::inputs>& in) {
  map_several(f, std::vector<SeveralOperands<F>>{{out, in}});
}

}  // namespace fovea
