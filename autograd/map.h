/// map() applies a functor to every element of its operands, differentiably. No functor needs a derivative of its own:
/// the derivative comes from evaluating the functor on dual numbers (tensor/formula/dual.h).
#pragma once
#include <array>
#include <tuple>

#include "autograd/node.h"
#include "tensor/map.h"

namespace fovea {

/// Returns f(x...) of the values x, as a constant.
template <class F, class... In>
Tensor map_values(const F& f, const In&... x) {
  return map(f, static_cast<const Variable&>(x).value_for(F::name)...);
}

struct Add;
struct Subtract;
struct Multiply;
struct Divide;
struct GradientTimes;
struct GradientOver;
struct Affine;

// map() of an arithmetic functor calls map_by_rule(), which records a backward rule written by hand (operations.cpp).
// Such a rule reads fewer operands than the derivative by dual numbers, and can be differentiated any number of times.
Variable map_by_rule(const Add&, const Variable& a, const Variable& b);
Variable map_by_rule(const Subtract&, const Variable& a, const Variable& b);
Variable map_by_rule(const Multiply&, const Variable& a, const Variable& b);
Variable map_by_rule(const Divide&, const Variable& a, const Variable& b);
Variable map_by_rule(const GradientTimes&, const Variable& gradient, const Variable& slope);
Variable map_by_rule(const GradientOver&, const Variable& gradient, const Variable& divisor);
Variable map_by_rule(const Affine&, const Variable& x);

/// Returns f(x...), element by element, with broadcasting. Can be differentiated twice; arithmetic functors any number
/// of times.
template <class F, class... In>
Variable map(const F& f, const Variable& first, const In&... rest) {
  if constexpr (requires { map_by_rule(f, first, rest...); }) return map_by_rule(f, first, rest...);
  constexpr std::size_t n = 1 + sizeof...(In);
  Tensor value = map_values(f, first, rest...);
  if (!should_record({&first, &static_cast<const Variable&>(rest)...})) return Variable(std::move(value));
  if constexpr (derivative_order<F> < 2) {
    auto rule = [f, inputs = std::array<Saved, n>{Saved(first), Saved(rest)...}](const Gradients& g, const Node& node) {
      Gradients out(inputs.size());
      for (std::size_t k = 0; k < out.size(); ++k) {  // the gradient of input k is g · ∂f/∂x_k
        auto of_input = [&](const auto&... x) {
          return map(differentiated(f, static_cast<int>(k)), g[0], x.get(node)...);
        };
        if (node.needs(k)) out[k] = std::apply(of_input, inputs);
      }
      return out;
    };
    return record(F::name, std::move(value), {first, rest...}, std::move(rule));
  } else {
    return record(F::name, std::move(value), {first, rest...}, [](const Gradients&, const Node&) -> Gradients {
      fail("{}: element-wise functions are differentiated twice, not three times", std::string_view(F::name));
    });
  }
}

}  // namespace fovea
