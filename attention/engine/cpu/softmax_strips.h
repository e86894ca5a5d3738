/// The functions from logits to weights on strips: softmax and densities.
///
/// Tried, and did not pay: one loop over the intervals of a strip, also where there is one interval. A plain call took
/// 1 % longer.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/engine/cpu/strips.h"
#include "attention/plan.h"
#include "tensor/formula/math.h"

namespace fovea {

/// The intervals of a strip, one StripRows for each: they differ in first, end and hull.
template <class T>
using StripIntervals = std::span<const StripRows<T>>;

/// The logarithm of a row's normaliser Σ_j exp(z_j), and its rounding error. Without `rest`, the weights that the
/// backward pass computes again from large logits would all be too large or too small.
template <class T>
struct LogTotal {
  T value, rest;  ///< the logarithm is value + rest
};

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// Reduces each vector to one number: lane r of the result is the lanes of rows[r] combined by `join`. Destroys `rows`.
/// `width` is half the number of vectors.
template <int width, class T, class Join>
FOVEA_INLINE Vec<T> joined_rows(Vec<T> (&rows)[Vec<T>::lanes], Join&& join) {
#pragma GCC unroll 8
  for (int r = 0; r < width; ++r) {
    transposition::swap_blocks<width>(rows[r], rows[r + width]);
    rows[r] = join(rows[r], rows[r + width]);
  }
  if constexpr (width > 1)
    return joined_rows<width / 2, T>(rows, join);
  else
    return rows[0];
}

/// body(j, vector) for the keys of row r in all intervals, as in for_keys() of one.
template <class T, class Body>
FOVEA_INLINE void for_keys(auto intervals, std::int64_t r, Body&& body) {
  for (const StripRows<T>& keys : intervals) for_keys<T>(keys.first[r], keys.end[r], body);
}

/// Lane r of the result is Σ term(r, j, vector) over the keys of row + r in all intervals, for r < count.
template <class T, class Term>
FOVEA_INLINE Vec<T> sums_of_rows(auto intervals, std::int64_t row, int count, Term&& term) {
  Vec<T> sums[Vec<T>::lanes];
  for (Vec<T>& sum : sums) sum = Vec<T>(T(0));
  for (int r = 0; r < count; ++r)
    for (const StripRows<T>& keys : intervals) {
      const std::int64_t first = keys.first[row + r];
      sums[r] += vector_of_sums<T>(keys.end[row + r] - first,
                                   [&](std::int64_t j, auto vector) { return term(r, first + j, vector); });
    }
  return joined_rows<Vec<T>::lanes / 2, T>(sums, [](Vec<T> a, Vec<T> b) { return a + b; });
}

template <class T>
FOVEA_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) {
  return select((a < b) | (b != b), b, a);  // NaN wins
}

/// body(intervals, first row, count) for blocks of at most as many rows as a vector has lanes. The maxima and sums of a
/// block's rows are reduced together, so that one vector holds the logarithms of all. A single interval, the usual
/// case, is a span of static size: then there is no loop over intervals.
template <class T, class Body>
void for_blocks_of_rows(StripIntervals<T> intervals, Body&& body) {
  auto for_blocks = [&](auto own) {
    for (std::int64_t r = 0, rows = own[0].count; r < rows; r += Vec<T>::lanes)
      body(own, r, static_cast<int>(std::min<std::int64_t>(Vec<T>::lanes, rows - r)));
  };
  if (intervals.size() == 1) return for_blocks(intervals.template first<1>());
  for_blocks(intervals);
}

/// Softmax of each row over its keys, in place. exp(sink) is added to each normaliser; sink = −inf: no sink. Writes the
/// logarithms of the normalisers to log_totals[r], unless it is null. If all logits of a row are −inf, all its weights
/// are 0 and the logarithm is set to +inf.
template <class T>
void softmax_rows(StripIntervals<T> all, T* strip, T sink, LogTotal<T>* log_totals) {
  for_blocks_of_rows<T>(all, [&](auto intervals, std::int64_t row, int count) {
    constexpr int lanes = Vec<T>::lanes;
    const std::int64_t stride = intervals[0].stride;
    const Vec<T> zero(T(0)), lowest(-infinity<T>);
    T* z = strip + row * stride;
    Vec<T> largest[lanes];
    for (Vec<T>& x : largest) x = lowest;
    for (int r = 0; r < count; ++r) {
      Vec<T> most = lowest;
      for_keys<T>(intervals, row + r, [&](std::int64_t j, auto vector) {
        most = larger(most, filled(load_vector(z + r * stride + j, vector), vector, -infinity<T>));
      });
      largest[r] = most;
    }
    const Vec<T> maximum = larger(joined_rows<lanes / 2, T>(largest, larger<T>), Vec<T>(sink));
    const LaneMask<T> nothing = maximum == lowest;  // no key: weights are 0, and log_total = inf makes them 0 again
    T shift[lanes], scale[lanes];
    select(nothing, zero, maximum).store(shift);
    Vec<T> total = sums_of_rows<T>(intervals, row, count, [&](int r, std::int64_t j, auto vector) {
      T* at = z + r * stride + j;
      Vec<T> e = filled(exp(load_vector(at, vector) - Vec<T>(shift[r])), vector, T(0));
      store_vector(e, at, vector);
      return e;
    });
    total += exp(Vec<T>(sink) - maximum);
    select(nothing, zero, Vec<T>(T(1)) / total).store(scale);
    for (int r = 0; r < count; ++r)
      for_keys<T>(intervals, row + r, [&](std::int64_t j, auto vector) {
        T* at = z + r * stride + j;
        store_vector(load_vector(at, vector) * Vec<T>(scale[r]), at, vector);
      });
    if (!log_totals) return;
    const Vec<T> sum = log(total), logarithm = maximum + sum;
    T value[lanes], rest[lanes];
    select(nothing, Vec<T>(infinity<T>), logarithm).store(value);
    select(nothing, zero, sum - (logarithm - maximum)).store(rest);
    for (int r = 0; r < count; ++r) log_totals[row + r] = {value[r], rest[r]};
  });
}

/// The softmax's backward pass: gradient = weights · (gradient − means[r]), where means[r] = Σ_j weights · gradient
/// over the row's keys. Writes the means, unless `means` is null.
template <class T>
void softmax_rows_backward(StripIntervals<T> all, const T* weights, T* gradient, T* means) {
  for_blocks_of_rows<T>(all, [&](auto intervals, std::int64_t row, int count) {
    const std::int64_t stride = intervals[0].stride;
    const Vec<T> zero(T(0));
    const T* w = weights + row * stride;
    T* g = gradient + row * stride;
    T mean[Vec<T>::lanes];
    // where a weight is 0 its gradient may be NaN or inf, so it is not multiplied
    sums_of_rows<T>(intervals, row, count, [&](int r, std::int64_t j, auto vector) {
      const Vec<T> weight = load_vector(w + r * stride + j, vector);
      return select(weight == zero, zero, weight * load_vector(g + r * stride + j, vector));
    }).store(mean);
    if (means) std::copy_n(mean, count, means + row);
    for (int r = 0; r < count; ++r)
      for_keys<T>(intervals, row + r, [&](std::int64_t j, auto vector) {
        T* at = g + r * stride + j;
        const Vec<T> weight = load_vector(w + r * stride + j, vector);
        store_vector(select(weight == zero, zero, weight * (load_vector(at, vector) - Vec<T>(mean[r]))), at, vector);
      });
  });
}

/// Row quantities of a row's logits (nn/row_quantities.h).
template <class T>
struct RowLogits {
  T maximum;
  std::int32_t key;
  T logsumexp;
};
/// The row quantities of the logits `row` of row r. exp(sink) is one more term of the sum; sink = −inf: there is none.
template <class T>
RowLogits<T> logits_of_row(StripIntervals<T> intervals, const T* row, std::int64_t r, T sink) {
  T maximum = -infinity<T>;
  std::int64_t key = -1;
  for (const StripRows<T>& keys : intervals)
    for (std::int64_t j = keys.first[r]; j < keys.end[r]; ++j)
      if (row[j] > maximum) maximum = row[j], key = j;
  const T most = std::max(maximum, sink), shift = most == -infinity<T> ? T(0) : most;
  T total = std::exp(sink - shift);
  for (const StripRows<T>& keys : intervals)
    total += sum_of_vectors<T>(keys.end[r] - keys.first[r], [&](std::int64_t j, auto count) {
      return filled(exp(load_vector(row + keys.first[r] + j, count) - Vec<T>(shift)), count, T(0));
    });
  return {maximum, static_cast<std::int32_t>(key), shift + std::log(total)};
}

/// The entropy of a row's weights (nn/row_quantities.h), 0 if all of them are 0.
template <class T>
T entropy_of_row(StripIntervals<T> intervals, const T* row, std::int64_t r) {
  T total = 0, logarithms = 0;
  const Vec<T> zero(T(0));
  for (const StripRows<T>& keys : intervals) {
    auto sizes = [&](std::int64_t j, auto count) {
      const Vec<T> w = load_vector(row + keys.first[r] + j, count);
      return filled(select(w < zero, -w, w), count, T(0));
    };
    const std::int64_t n = keys.end[r] - keys.first[r];
    total += sum_of_vectors<T>(n, sizes);
    logarithms += sum_of_vectors<T>(n, [&](std::int64_t j, auto count) {
      const Vec<T> size = sizes(j, count);
      return select(size == zero, zero, size * log(size));
    });
  }
  return total == 0 ? T(0) : std::max(std::log(total) - logarithms / total, T(0));
}

/// x[j] = change(row, x[j], j, count) for the keys of all rows.
template <class T, class Change>
FOVEA_INLINE void change_rows(StripIntervals<T> intervals, T* strip, Change&& change) {
  for (const StripRows<T>& rows : intervals)
    for (std::int64_t r = 0; r < rows.count; ++r) {
      T* row = strip + r * rows.stride;
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(change(r, load_vector(row + j, count), j, count), row + j, count);
      });
    }
}

/// The softmax with known normalisers: z = exp(z − log_total), in place.
template <class T>
void softmax_rows_again(StripIntervals<T> intervals, T* z, const LogTotal<T>* log_totals) {
  change_rows<T>(intervals, z, [=](std::int64_t r, Vec<T> x, std::int64_t, auto) {
    return exp(x - Vec<T>(log_totals[r].value) - Vec<T>(log_totals[r].rest));
  });
}

/// Densities: z = exp(min(z, Normalizer::largest_exponent)), in place.
template <class T>
void density_rows(StripIntervals<T> intervals, T* z) {
  const Vec<T> most(T{Normalizer::largest_exponent});
  change_rows<T>(intervals, z, [=](auto, Vec<T> x, auto, auto) { return exp(select(x > most, most, x)); });
}
/// The backward pass of density_rows(): gradient = weights · gradient, and 0 where the exponent is the largest one.
template <class T>
void density_rows_backward(StripIntervals<T> intervals, const T* weights, T* gradient) {
  // a weight is the largest one, exp(40), up to the rounding of exp()
  const Vec<T> zero(T(0)), most(T(std::exp(Normalizer::largest_exponent) * (1 - 1e-6)));
  const std::int64_t stride = intervals[0].stride;
  change_rows<T>(intervals, gradient, [=](std::int64_t r, Vec<T> g, std::int64_t j, auto count) {
    const Vec<T> weight = load_vector(weights + r * stride + j, count);
    return select((weight == zero) | (weight > most), zero, weight * g);
  });
}

}  // namespace fovea
