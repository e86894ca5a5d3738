/// Pointwise formulas: functors f(z, position, captures...) of one logit or weight, in all forms that engines need.
///
/// The author of a method writes the functor once, as a template over the number type. PointwiseFormula derives all
/// forms that engines need from it: an expression, from which source text for a device's compiler is generated; a
/// function of numbers; loops over rows in the CPU's memory, on SIMD vectors; and a differentiable operation on whole
/// matrices.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/formula/captures.h"
#include "attention/formula/pair_rows.h"
#include "attention/formula/position.h"
#include "autograd/map.h"
#include "tensor/cpu/row_loop.h"
#include "tensor/formula/dual.h"
#include "tensor/formula/recorded.h"
#include "tensor/formula/reverse.h"

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
  std::size_t option_bytes;  ///< size of the functor's options; 0 if it has none
  Expression (*value)(const void* f);
  /// The differentiable operation on matrices. x = {z, query positions, key positions, captures...} broadcast to each
  /// other.
  Variable (*map)(const void* f, std::span<const Variable> x);
  PointwiseKernels<float> f32;
  PointwiseKernels<double> f64;
};

/// A pointwise functor with its options, where the functor's type is erased.
class PointwiseFormula {
 public:
  /// `functions` are the forms of the functor's type; they must have static storage duration.
  PointwiseFormula(const PointwiseFunctions& functions, std::shared_ptr<const void> functor)
      : functions_(&functions), functor_(std::move(functor)) {}

  const char* name() const { return functions_->name; }
  int captures() const { return functions_->captures; }
  /// The formula as an expression of z, query position, key position, captures..., with one result.
  Expression value() const { return functions_->value(functor_.get()); }
  /// The derivative as an expression: its inputs are the gradient of the result and then the inputs of value(), its
  /// results the gradients of z and of each capture. An incoming gradient of exactly 0 gives 0, even where the
  /// derivative is infinite.
  Expression gradients() const {
    std::vector<int> of{0};
    for (int k = 0; k < captures(); ++k) of.push_back(3 + k);
    return gradients_of(value(), of);
  }
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

/// The forms of functor F. per_key[k] is is_per_key() of capture k.
template <class F, bool... per_key>
struct Of {
  static constexpr std::size_t captures = sizeof...(per_key);
  static constexpr std::array<bool, captures> reads_keys{per_key...};
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

  /// Loads capture k in a loop over the keys of one row. A number for the whole row is loaded once before the loop,
  /// because the compiler cannot rule out that the loop's stores overwrite it.
  template <std::size_t k, class T>
  struct Reader {
    const T* numbers;
    Vec<T> number = Vec<T>(T(0));
    explicit FOVEA_INLINE Reader(const CaptureRow<T>& row) : numbers(row.numbers) {
      if constexpr (!reads_keys[k]) number = Vec<T>(*numbers);
    }
    template <class Count>
    FOVEA_INLINE Vec<T> load(std::int64_t j, Count count) const {
      if constexpr (reads_keys[k])
        return load_vector(numbers + j, count);
      else
        return number;
    }
  };

  template <class T>
  static void forward(const void* functor_address, const PairRows<T>& rows, const T* from, T* to,
                      const CaptureRow<T>* captured) {
    forward_rows(functor(functor_address), rows, from, to, captured, all);
  }
  template <class T, std::size_t... k>
  static void forward_rows(const F f, const PairRows<T>& rows, const T* from, T* to,
                           [[maybe_unused]] const CaptureRow<T>* captured, std::index_sequence<k...>) {
    using V = Vec<T>;
    for (std::int64_t r = 0; r < rows.count; ++r, from += rows.stride, to += rows.stride) {
      [[maybe_unused]] const std::tuple readers{
          Reader<k, T>(captured[static_cast<std::int64_t>(k) * rows.count + r])...};
      const V query(static_cast<T>(rows.query_position + r));
      const std::int64_t first = rows.first[r];
      for_vectors<T>(rows.end[r] - first, [&](std::int64_t at, auto count) {
        const std::int64_t j = first + at;
        const Position<V> position{query, V(static_cast<T>(j)) + lane_numbers<T>()};
        store_vector(f(load_vector(from + j, count), position, std::get<k>(readers).load(j, count)...), to + j, count);
      });
    }
  }

  template <class T>
  static void backward(const void* functor_address, const PairRows<T>& rows, const T* from, T* gradient,
                       const CaptureRow<T>* captured) {
    backward_rows(functor(functor_address), rows, from, gradient, captured, all);
  }
  template <class T, std::size_t... k>
  static void backward_rows(const F f, const PairRows<T>& rows, const T* from, T* gradient,
                            [[maybe_unused]] const CaptureRow<T>* captured, std::index_sequence<k...>) {
    using V = Vec<T>;
    for (std::int64_t r = 0; r < rows.count; ++r, from += rows.stride, gradient += rows.stride) {
      [[maybe_unused]] const std::array<CaptureRow<T>, captures> row{
          captured[static_cast<std::int64_t>(k) * rows.count + r]...};
      [[maybe_unused]] const std::tuple readers{Reader<k, T>(row[k])...};
      std::array<V, captures> sum;  // gradients of the captures with one number for the row, one partial sum per lane
      sum.fill(V(T(0)));
      const V query(static_cast<T>(rows.query_position + r));
      const std::int64_t first = rows.first[r];
      for_vectors<T>(rows.end[r] - first, [&](std::int64_t at, auto count) {
        const std::int64_t j = first + at;
        const std::array<V, captures> x{std::get<k>(readers).load(j, count)...};
        const Position<V> position{query, V(static_cast<T>(j)) + lane_numbers<T>()};
        const auto all_of =
            gradients_of(f, load_vector(gradient + j, count), load_vector(from + j, count), position, x.data(), all);
        (add_gradient<k>(row[k].gradients, sum[k], j, count, all_of[1 + k]), ...);
        store_vector(all_of[0], gradient + j, count);
      });
      (finish_row<k>(row[k].gradients, sum[k]), ...);
    }
  }
  template <std::size_t k, class T, class Count>
  static FOVEA_INLINE void add_gradient(T* gradients, Vec<T>& sum, std::int64_t j, Count count, Vec<T> more) {
    if constexpr (!reads_keys[k])
      sum += filled(more, count, T(0));
    else if (gradients)
      store_vector(load_vector(gradients + j, count) + more, gradients + j, count);
  }
  template <std::size_t k, class T>
  static FOVEA_INLINE void finish_row(T* gradients, Vec<T> sum) {
    if constexpr (!reads_keys[k])
      if (gradients) *gradients += horizontal_sum(sum);
  }

  template <class T>
  static constexpr PointwiseKernels<T> kernels{value<T>, gradients<T>, forward<T>, backward<T>};
  static_assert(std::is_trivially_copyable_v<F>, "the options of a functor must be plain numbers");
  static constexpr PointwiseFunctions functions{
      F::name,        static_cast<int>(captures), std::is_empty_v<F> ? 0 : sizeof(F), record_value, map, kernels<float>,
      kernels<double>};
};

}  // namespace pointwise_forms

/// The formula of functor f, whose captures are indexed as `per` says, in the order of f's arguments.
template <class F, Per... per>
PointwiseFormula pointwise_formula(const F& f) {
  return {pointwise_forms::Of<F, is_per_key(per)...>::functions, std::make_shared<const F>(f)};
}

}  // namespace fovea
