/// Element-wise functors such as Exp or Add, which arithmetic.h and functions.h have: how the library knows that it has
/// compiled kernels for one, and the functors that compute its derivatives.
///
/// A functor is a struct with a name whose operator() is written for any number type: the CPU calls it with SIMD
/// vectors (Vec<T>), CUDA with scalars, and the backward pass with dual numbers (dual.h). To add one to the library,
/// write the struct in functions.h and add its name to the list at the end of that file. Then map(Name{}, x) works on
/// tensors and on variables (tensors with gradients), on both devices, and the tests check it. A functor of your own
/// may be in any file; its name is a `const char*`.
#pragma once
#include <string_view>
#include <type_traits>
#include <utility>

#include "tensor/formula/dual.h"
#include "tensor/formula/list.h"
#include "tensor/formula/math.h"

namespace fovea {

/// The name of a functor that is in one of the library's lists: each device has compiled kernels for it.
struct ListedName {
  const char* text;
  consteval ListedName(const char* text) : text(text) {}
  constexpr operator const char*() const { return text; }
  constexpr operator std::string_view() const { return text; }
};

/// Whether F is in one of the library's lists of functors, or is a derivative of one.
template <class F>
inline constexpr bool is_listed = std::is_same_v<decltype(F::name), const ListedName>;

/// The functor g · ∂f/∂x_k of (g, x_0, ..., x_{n−1}), which the backward pass of f maps to get the gradient of input k;
/// g is the gradient with respect to the result of f. It is 0 where g is 0. One kernel serves all k: `k` is chosen at
/// run time, among derivatives that are compiled separately for each k.
template <class F>
struct Derivative {
  static constexpr auto name = F::name;
  F f;
  int k;
  template <class T, class... X>
  FOVEA_HD FOVEA_INLINE T operator()(T g, X... x) const {
    return for_each_input(std::index_sequence_for<X...>{}, g, x...);
  }

 private:
  template <std::size_t... input, class T, class... X>
  FOVEA_HD FOVEA_INLINE T for_each_input(std::index_sequence<input...> inputs, T g, X... x) const {
    if constexpr (sizeof...(X) == 1) return along<0>(inputs, g, x...);
    T gradient = g;
    ((k == int{input} ? void(gradient = along<int{input}>(inputs, g, x...)) : void()), ...);
    return gradient;
  }
  template <int direction, std::size_t... input, class T, class... X>
  FOVEA_HD FOVEA_INLINE T along(std::index_sequence<input...>, T g, X... x) const {
    const Dual<T> y = f(Dual<T>::input(x, int{input} == direction)...);
    return y.is_constant ? y.tangent : gradient_times(g, y.tangent);
  }
};

/// The functor of (h, g, x_0, ..., x_{n−1}) that gives h times the derivative of Derivative<F>{f, i} with respect to
/// its input k. Input 0 of that functor is g, so the result is h · ∂f/∂x_i for k = 0, and h · g · ∂²f/∂x_i ∂x_{k−1}
/// otherwise. It is 0 where h is 0. Second derivatives are rare, so if f has several inputs, there is no separate code
/// for each i and k.
template <class F>
struct SecondDerivative {
  static constexpr auto name = F::name;
  F f;
  int i, k;
  template <class T, class... X>
  FOVEA_HD FOVEA_INLINE T operator()(T h, T g, X... x) const {
    if (k == 0) return Derivative<F>{f, i}(h, x...);
    return along(std::index_sequence_for<X...>{}, h, g, x...);
  }

 private:
  template <std::size_t... input, class T, class... X>
  FOVEA_HD FOVEA_INLINE T along(std::index_sequence<input...>, T h, T g, X... x) const {
    using D = Dual<T>;
    constexpr bool is_only = sizeof...(X) == 1;
    const Dual<D> y = f(Dual<D>::input(D::input(x, is_only || int{input} == k - 1), is_only || int{input} == i)...);
    const D slope = y.tangent;
    if (y.is_constant || slope.is_constant) return slope.tangent;  // it is 0
    return gradient_times(h, gradient_times(g, slope.tangent));
  }
};

/// Returns the functor that the backward pass of f maps to get the gradient of input k.
template <class F>
Derivative<F> differentiated(const F& f, int k) {
  return {f, k};
}
template <class F>
SecondDerivative<F> differentiated(const Derivative<F>& derivative, int k) {
  return {derivative.f, derivative.k, k};
}

/// How many times a functor has been differentiated: 1 for Derivative, 2 for SecondDerivative, 0 for all others.
template <class F>
inline constexpr int derivative_order = 0;
template <class F>
inline constexpr int derivative_order<Derivative<F>> = 1;
template <class F>
inline constexpr int derivative_order<SecondDerivative<F>> = 2;

}  // namespace fovea
