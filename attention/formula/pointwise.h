/// Pointwise formulas: functors f(z, position, captures...) of one logit or weight, in all forms that engines need.
///
/// The author of a method writes the functor once, as a template over the number type. PointwiseFormula derives all
/// forms that engines need from it: an expression, from which source text for a device's compiler is generated; a
/// function of numbers; a differentiable operation on whole matrices; and loops over rows in the CPU's memory, on SIMD
/// vectors, which are those of attention/engine/cpu/pointwise_loops.h.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/formula/captures.h"
#include "attention/formula/position.h"
#include "attention/formula/reverse.h"
#include "autograd/map.h"
#include "tensor/formula/dual.h"
#include "tensor/formula/recorded.h"

namespace fovea {

/// Adapts f(z, position, captures...) to an element-wise functor of (z, query position, key position, captures...).
template <class F>
struct Pointwise {
  static constexpr const char* name = F::name;
  F f;
  template <class T, class... Captures>
  FOVEA_HD FOVEA_INLINE T operator()(T z, T query, T key, Captures... captures) const {
    return f(z, Position<T>{query, key}, captures...);
  }
};

template <class T>
struct PairRows;
template <class T>
struct CaptureRow;

/// The forms of one functor type for numbers of type T. `f` points to the functor.
template <class T>
struct PointwiseKernels {
  /// Returns f of x = {z, query position, key position, captures...}.
  T (*value)(const void* f, const T* x);
  /// Writes the gradients of z and of each capture to `to`, given the gradient `g` of f's result.
  void (*gradients)(const void* f, T g, const T* x, T* to);
  /// to = f(from) for the keys of every row. `to` may be `from`. captures[k * rows.count + r] is capture k of row r.
  void (*forward)(const void* f, const PairRows<T>& rows, const T* from, T* to, const CaptureRow<T>* captures);
  /// The backward pass of forward(): `gradient` holds the gradient of f(from) and receives that of `from`; the
  /// gradients of captures are added to.
  void (*backward)(const void* f, const PairRows<T>& rows, const T* from, T* gradient, const CaptureRow<T>* captures);
};

/// All forms of one functor type. `f` points to the functor.
struct PointwiseFunctions {
  const char* name;
  int captures;
  std::uint64_t per_key;     ///< bit k: is_per_key() of capture k
  std::size_t option_bytes;  ///< size of the functor's options; 0 if it has none
  Expression (*value)(const void* f);
  /// The differentiable operation on matrices. x = {z, query positions, key positions, captures...} broadcast to each
  /// other.
  Variable (*map)(const void* f, std::span<const Variable> x);
  PointwiseKernels<float> f32;
  PointwiseKernels<double> f64;
};

/// For a formula of (x, query position, key position, captures...), where x is the logit or weight of a pair: the
/// gradients of x and of each capture, as one expression. Its inputs are the gradient of the formula's result, and then
/// the formula's inputs.
inline Expression gradients_of_pair(const Expression& value) {
  std::vector<int> of{0};
  for (int input = 3; input < value.inputs; ++input) of.push_back(input);
  return gradients_of(value, of);
}

/// PointwiseFunctions::per_key.
constexpr std::uint64_t bits_of(std::initializer_list<bool> per_key) {
  std::uint64_t bits = 0;
  int k = 0;
  for (const bool one : per_key) bits |= std::uint64_t{one} << k++;
  return bits;
}

/// A pointwise functor with its options, where the functor's type is erased.
class PointwiseFormula {
 public:
  /// `functions` are the forms of the functor's type; they must have static storage duration.
  PointwiseFormula(const PointwiseFunctions& functions, std::shared_ptr<const void> functor)
      : functions_(&functions), functor_(std::move(functor)) {}

  const char* name() const { return functions_->name; }
  int captures() const { return functions_->captures; }
  /// Whether the formula takes a number for each key as its capture k, rather than one for all keys of a query.
  bool takes_per_key(std::size_t k) const { return functions_->per_key >> k & 1; }
  /// The formula as an expression of z, query position, key position, captures..., with one result.
  Expression value() const { return functions_->value(functor_.get()); }
  /// The derivative as an expression: its inputs are the gradient of the result and then the inputs of value(), its
  /// results the gradients of z and of each capture. An incoming gradient of exactly 0 gives 0, even where the
  /// derivative is infinite.
  Expression gradients() const { return gradients_of_pair(value()); }
  /// PointwiseFunctions::map() of this functor.
  Variable map(std::span<const Variable> x) const { return functions_->map(functor_.get(), x); }

  /// The forms for numbers of type T, float or double; their argument f is functor().
  template <class T>
  const PointwiseKernels<T>& kernels() const {
    if constexpr (std::is_same_v<T, float>)
      return functions_->f32;
    else
      return functions_->f64;
  }
  const void* functor() const { return functor_.get(); }

  /// Appends bytes to `key` that are equal only for formulas with equal functors: of one type, with the same options.
  void append_identity(std::string& key) const {
    key.append(reinterpret_cast<const char*>(&functions_), sizeof functions_);
    key.append(static_cast<const char*>(functor()), functions_->option_bytes);
  }

 private:
  const PointwiseFunctions* functions_;
  std::shared_ptr<const void> functor_;
};

namespace pointwise_forms {

/// forward() and backward() of PointwiseKernels for functor F. per_key[k] is is_per_key() of capture k.
template <class F, bool... per_key>
struct Loops;

/// The gradient of one input of f, from the gradient `g` of f's result. wrt = −1 is z, wrt = k ≥ 0 is capture k. A
/// result that does not depend on the input has the gradient 0, even where g is infinite or NaN.
template <int wrt, class N, class F, std::size_t... k>
FOVEA_INLINE N gradient_of(const F& f, N g, N z, Position<N> at, [[maybe_unused]] const N* captures,
                           std::index_sequence<k...>) {
  using D = Dual<N>;
  const D y = f(D::input(z, wrt == -1), Position<D>{D(at.query), D(at.key)},
                D::input(captures[k], wrt == static_cast<int>(k))...);
  return y.is_constant ? y.tangent : gradient_times(g, y.tangent);
}

/// Functor F with this number of captures, called with arrays of arguments.
template <class F, std::size_t captures>
struct OfArrays {
  static constexpr std::make_index_sequence<captures> all{};
  static const F& functor(const void* f) { return *static_cast<const F*>(f); }

  template <class N, std::size_t... k>
  static FOVEA_INLINE N value_of(const F& f, const N* x, std::index_sequence<k...>) {
    return f(x[0], Position<N>{x[1], x[2]}, x[3 + k]...);
  }
  /// The gradients of all inputs, {z, captures...}. All are computed before any is stored, so that the compiler can
  /// compute their common subexpressions once.
  template <class N, std::size_t... k>
  static FOVEA_INLINE std::array<N, 1 + captures> gradients_of(const F& f, N g, N z, Position<N> at,
                                                               [[maybe_unused]] const N* x, std::index_sequence<k...>) {
    return {gradient_of<-1>(f, g, z, at, x, all), gradient_of<static_cast<int>(k)>(f, g, z, at, x, all)...};
  }
};

/// The forms of functor F. per_key[k] is is_per_key() of capture k.
template <class F, bool... per_key>
struct Of : OfArrays<F, sizeof...(per_key)> {
  using Arrays = OfArrays<F, sizeof...(per_key)>;
  using Arrays::all, Arrays::functor, Arrays::value_of, Arrays::gradients_of;
  static constexpr std::size_t captures = sizeof...(per_key);

  static Expression record_value(const void* f) {
    return record_expression(
        3 + captures, [f](std::span<const Recorded> x) { return std::vector{value_of(functor(f), x.data(), all)}; });
  }
  template <std::size_t... k>
  static Variable map_of(const F& f, std::span<const Variable> x, std::index_sequence<k...>) {
    return fovea::map(Pointwise<F>{f}, x[0], x[1], x[2], x[3 + k]...);
  }
  static Variable map(const void* f, std::span<const Variable> x) { return map_of(functor(f), x, all); }

  template <class T>
  static T value(const void* f, const T* x) {
    return value_of(functor(f), x, all);
  }
  template <class T>
  static void gradients(const void* f, T g, const T* x, T* to) {
    const auto all_of = gradients_of(functor(f), g, x[0], {x[1], x[2]}, x + 3, all);
    std::copy(all_of.begin(), all_of.end(), to);
  }

  template <class T>
  static constexpr PointwiseKernels<T> kernels{value<T>, gradients<T>, Loops<F, per_key...>::template forward<T>,
                                               Loops<F, per_key...>::template backward<T>};
  static_assert(std::is_trivially_copyable_v<F>, "the options of a functor must be plain numbers");
  static constexpr PointwiseFunctions functions{F::name,
                                                static_cast<int>(captures),
                                                bits_of({per_key...}),
                                                std::is_empty_v<F> ? 0 : sizeof(F),
                                                record_value,
                                                map,
                                                kernels<float>,
                                                kernels<double>};
};

}  // namespace pointwise_forms

/// The formula of functor f, whose captures are indexed as `per` says, in the order of f's arguments. A file that calls
/// this includes attention/engine/cpu/pointwise_loops.h.
template <class F, Per... per>
PointwiseFormula pointwise_formula(const F& f) {
  return {pointwise_forms::Of<F, is_per_key(per)...>::functions, std::make_shared<const F>(f)};
}

}  // namespace fovea
