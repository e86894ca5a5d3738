/// The loops of pointwise formulas over rows in the CPU's memory, on SIMD vectors.
#pragma once
#include <array>
#include <tuple>
#include <utility>

#include "attention/engine/cpu/pair_rows.h"
#include "attention/formula/pointwise.h"
#include "tensor/cpu/row_loop.h"

namespace fovea::pointwise_forms {

template <class F, bool... per_key>
struct Loops : OfArrays<F, sizeof...(per_key)> {
  using Arrays = OfArrays<F, sizeof...(per_key)>;
  using Arrays::all, Arrays::functor, Arrays::gradients_of;
  static constexpr std::size_t captures = sizeof...(per_key);
  static constexpr std::array<bool, captures> reads_keys{per_key...};

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
};

}  // namespace fovea::pointwise_forms
