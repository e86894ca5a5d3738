/// map() applies a functor to every element of its operands, differentiably. No functor needs a derivative of its own:
/// the derivative comes from evaluating the functor on dual numbers (tensor/formula/dual.h).
#pragma once
#include <array>

#include "autograd/node.h"
#include "tensor/map.h"

namespace fovea {

template <class F, class... In>
Variable map(const F& f, const Variable& first, const In&... rest);

/// Returns f(x...) of the values x, as a constant.
template <class F, class... In>
Tensor map_values(const F& f, const In&... x) {
  return map(f, static_cast<const Variable&>(x).value_for(F::name)...);
}

// map() of an arithmetic functor calls map_by_rule(), which records a backward rule written by hand (operations.cpp).
// Such a rule reads fewer operands than the derivative by dual numbers, and can be differentiated any number of times.
Variable map_by_rule(const Add&, const Variable& a, const Variable& b);
Variable map_by_rule(const Subtract&, const Variable& a, const Variable& b);
Variable map_by_rule(const Multiply&, const Variable& a, const Variable& b);
Variable map_by_rule(const Divide&, const Variable& a, const Variable& b);
Variable map_by_rule(const GradientTimes&, const Variable& gradient, const Variable& slope);
Variable map_by_rule(const GradientOver&, const Variable& gradient, const Variable& divisor);
Variable map_by_rule(const Affine&, const Variable& x);

/// The backward pass of map(f, x...): given the gradient `g` of the result, returns g · ∂f/∂x_k for each input x_k that
/// needs a gradient.
template <class F, std::size_t n, std::size_t... k>
Gradients map_gradients(const F& f, const Variable& g, const std::array<Saved, n>& inputs, const Node& node,
                        std::index_sequence<k...>) {
  Gradients out(n);
  for (std::size_t wrt = 0; wrt < n; ++wrt)
    if (node.needs(wrt)) out[wrt] = map(differentiated(f, static_cast<int>(wrt)), g, inputs[k].get(node)...);
  return out;
}

/// Returns f(x...), element by element, with broadcasting. Can be differentiated twice; arithmetic functors any number
/// of times.
template <class F, class... In>
Variable map(const F& f, const Variable& first, const In&... rest) {
  if constexpr (requires { map_by_rule(f, first, rest...); }) return map_by_rule(f, first, rest...);
  constexpr std::size_t n = 1 + sizeof...(In);
  Tensor value = map_values(f, first, rest...);
  if (!should_record({&first, &static_cast<const Variable&>(rest)...})) return Variable(std::move(value));
  if constexpr (derivative_order<F> < 2) {
    return record(
        F::name, std::move(value), {first, rest...},
        [f, inputs = std::array<Saved, n>{Saved(first), Saved(rest)...}](const Gradients& g, const Node& node) {
          return map_gradients(f, g[0], inputs, node, std::make_index_sequence<n>{});
        });
  } else {
    return record(F::name, std::move(value), {first, rest...}, [](const Gradients&, const Node&) -> Gradients {
      fail("{}: element-wise functions are differentiated twice, not three times", F::name);
    });
  }
}

}  // namespace fovea
