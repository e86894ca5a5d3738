#include "attention/engine/cpu/strips.h"

#include <cmath>
#include <limits>

#include "attention/plan.h"
#include "tensor/cpu/packing.h"
#include "tensor/formula/math.h"

namespace fovea {

Tensor as_rank(const Tensor& x, int rank) {
  Shape shape;
  for (int d = x.rank(); d < rank; ++d) shape.push_back(1);
  for (std::int64_t size : x.shape()) shape.push_back(size);
  return x.reshape(shape);
}

Tensor rows_of_keys(const Tensor& x, std::int64_t keys) {
  Shape shape = x.shape();
  shape[-1] = keys;
  return with_unit_rows(x.size(-1) == keys ? x : x.expand(shape).contiguous());
}

namespace {

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// Reduces each vector to one number: lane r of the result is the lanes of part[r] combined by `join`. Destroys `part`.
/// `width` is half the number of vectors.
template <int width, class T, class Join>
FOVEA_INLINE Vec<T> joined_rows(Vec<T> (&part)[Vec<T>::lanes], Join&& join) {
#pragma GCC unroll 8
  for (int r = 0; r < width; ++r) {
    transposition::swap_blocks<width>(part[r], part[r + width]);
    part[r] = join(part[r], part[r + width]);
  }
  if constexpr (width > 1)
    return joined_rows<width / 2>(part, join);
  else
    return part[0];
}

/// Lane r of the result is the lanes of vectors_of_row(r) combined by `join`, for r < count; `nothing` in other lanes.
template <class T, class Row, class Join>
FOVEA_INLINE Vec<T> joined_rows(int count, T nothing, Row&& vectors_of_row, Join&& join) {
  constexpr int lanes = Vec<T>::lanes;
  Vec<T> part[lanes];
  for (int r = 0; r < count; ++r) part[r] = vectors_of_row(r);
  for (int r = count; r < lanes; ++r) part[r] = Vec<T>(nothing);
  return joined_rows<lanes / 2>(part, join);
}

template <class T>
FOVEA_INLINE Vec<T> sum_of_rows(int count, auto&& vectors_of_row) {
  return joined_rows<T>(count, T(0), vectors_of_row, [](Vec<T> a, Vec<T> b) { return a + b; });
}

template <class T>
FOVEA_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) {
  return select((a < b) | (b != b), b, a);  // NaN wins
}

/// Softmax of `count` rows, at most the number of lanes of a vector. Their maxima and sums are reduced together, so
/// that one vector holds the logarithms of all.
template <class T>
void softmax_block(const RowsOfKeys& rows, int count, T* z, T sink, LogTotal<T>* log_totals) {
  constexpr int lanes = Vec<T>::lanes;
  const Vec<T> zero(T(0)), lowest(-infinity<T>);
  const Vec<T> maximum =
      larger(joined_rows<T>(
                 count, -infinity<T>,
                 [&](int r) {
                   Vec<T> row = lowest;
                   for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
                     row = larger(row, filled(load_vector(z + r * rows.stride + j, count), count, -infinity<T>));
                   });
                   return row;
                 },
                 larger<T>),
             Vec<T>(sink));
  const LaneMask<T> nothing = maximum == lowest;  // no key: weights are 0, and log_total = inf makes them 0 again later
  T shift[lanes], scale[lanes];
  select(nothing, zero, maximum).store(shift);
  Vec<T> total = sum_of_rows<T>(count, [&](int r) {
    T* row = z + r * rows.stride + rows.first[r];
    return vector_of_sums<T>(rows.end[r] - rows.first[r], [&](std::int64_t j, auto count) {
      Vec<T> e = filled(exp(load_vector(row + j, count) - Vec<T>(shift[r])), count, T(0));
      store_vector(e, row + j, count);
      return e;
    });
  });
  total += exp(Vec<T>(sink) - maximum);
  select(nothing, zero, Vec<T>(T(1)) / total).store(scale);
  for (int r = 0; r < count; ++r) {
    T* row = z + r * rows.stride;
    for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
      store_vector(load_vector(row + j, count) * Vec<T>(scale[r]), row + j, count);
    });
  }
  if (!log_totals) return;
  const Vec<T> sum = log(total), logarithm = maximum + sum;
  T value[lanes], rest[lanes];
  select(nothing, Vec<T>(infinity<T>), logarithm).store(value);
  select(nothing, zero, sum - (logarithm - maximum)).store(rest);
  for (int r = 0; r < count; ++r) log_totals[r] = {value[r], rest[r]};
}

/// body(rows, count, first row) for blocks of at most as many rows as a vector has lanes.
template <int lanes, class Body>
void for_blocks(RowsOfKeys rows, Body&& body) {
  for (std::int64_t r = 0; r < rows.count; r += lanes, rows.first += lanes, rows.end += lanes)
    body(rows, static_cast<int>(std::min<std::int64_t>(lanes, rows.count - r)), r);
}

}  // namespace

template <class T>
void softmax_rows(const RowsOfKeys& rows, T* z, T sink, LogTotal<T>* log_totals) {
  for_blocks<Vec<T>::lanes>(rows, [&](const RowsOfKeys& block, int count, std::int64_t r) {
    softmax_block(block, count, z + r * rows.stride, sink, log_totals ? log_totals + r : nullptr);
  });
}

template <class T>
void join_softmax(std::span<const RowsOfKeys> pieces, std::span<LogTotal<T>* const> totals, T* weights) {
  auto logarithm = [](const LogTotal<T>& total) { return total.value == infinity<T> ? -infinity<T> : total.value; };
  for (std::int64_t r = 0; r < pieces[0].count; ++r) {
    T maximum = -infinity<T>;
    for (LogTotal<T>* of_piece : totals) {
      const T value = logarithm(of_piece[r]);
      if (maximum < value || std::isnan(value)) maximum = value;  // NaN wins: no number is larger
    }
    if (maximum == -infinity<T>) {  // no key in any piece: all weights are 0
      totals[0][r] = {infinity<T>, T(0)};
      continue;
    }
    auto mass = [&](std::size_t p) { return exp(logarithm(totals[p][r]) - maximum + totals[p][r].rest); };
    T total = 0;
    for (std::size_t p = 0; p < pieces.size(); ++p) total += mass(p);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const Vec<T> share(mass(p) / total);
      T* row = weights + r * pieces[p].stride;
      for_keys<T>(pieces[p].first[r], pieces[p].end[r], [&](std::int64_t j, auto count) {
        store_vector(load_vector(row + j, count) * share, row + j, count);
      });
    }
    const T sum = log(total), value = maximum + sum;
    totals[0][r] = {value, sum - (value - maximum)};
  }
}

template <class T>
void softmax_rows_again(const RowsOfKeys& rows, T* z, const LogTotal<T>* log_totals) {
  for (std::int64_t r = 0; r < rows.count; ++r, z += rows.stride) {
    const Vec<T> shift(log_totals[r].value), rest(log_totals[r].rest);
    for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
      store_vector(exp(load_vector(z + j, count) - shift - rest), z + j, count);
    });
  }
}

template <class T>
void softmax_rows_backward(const RowsOfKeys& rows, const T* weights, T* gradient, T* means) {
  constexpr int lanes = Vec<T>::lanes;
  const Vec<T> zero(T(0));
  for_blocks<Vec<T>::lanes>(rows, [&](const RowsOfKeys& block, int block_rows, std::int64_t first_row) {
    // where a weight is 0 its gradient may be NaN or inf, so it is not multiplied
    const Vec<T> sums = sum_of_rows<T>(block_rows, [&](int r) {
      const std::int64_t at = (first_row + r) * rows.stride + block.first[r];
      return vector_of_sums<T>(block.end[r] - block.first[r], [&](std::int64_t j, auto count) {
        Vec<T> weight = load_vector(weights + at + j, count);
        return select(weight == zero, zero, weight * load_vector(gradient + at + j, count));
      });
    });
    T mean[lanes];
    sums.store(mean);
    if (means) std::copy_n(mean, block_rows, means + first_row);
    for (int r = 0; r < block_rows; ++r) {
      const std::int64_t at = (first_row + r) * rows.stride;
      for_keys<T>(block.first[r], block.end[r], [&](std::int64_t j, auto count) {
        Vec<T> weight = load_vector(weights + at + j, count), g = load_vector(gradient + at + j, count);
        store_vector(select(weight == zero, zero, weight * (g - Vec<T>(mean[r]))), gradient + at + j, count);
      });
    }
  });
}

template <class T>
void subtract_means(const RowsOfKeys& rows, const T* weights, T* gradient, const T* means) {
  const Vec<T> zero(T(0));
  for (std::int64_t r = 0; r < rows.count; ++r, weights += rows.stride, gradient += rows.stride)
    for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
      const Vec<T> weight = load_vector(weights + j, count), g = load_vector(gradient + j, count);
      store_vector(select(weight == zero, zero, g - weight * Vec<T>(means[r])), gradient + j, count);
    });
}

template <class T>
void density_rows(const RowsOfKeys& rows, T* z) {
  const auto most = Vec<T>(T{Normalizer::largest_exponent});
  for (std::int64_t r = 0; r < rows.count; ++r, z += rows.stride)
    for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
      const Vec<T> own = load_vector(z + j, count);
      store_vector(exp(select(own > most, most, own)), z + j, count);
    });
}

template <class T>
void density_row_backward(const T* weights, T* gradient, std::int64_t first, std::int64_t end) {
  // a weight is the largest one, exp(40), up to the rounding of exp()
  const Vec<T> zero(T(0)), most(T(std::exp(Normalizer::largest_exponent) * (1 - 1e-6)));
  for_keys<T>(first, end, [&](std::int64_t j, auto count) {
    const Vec<T> weight = load_vector(weights + j, count), own = weight * load_vector(gradient + j, count);
    store_vector(select(weight == zero, zero, select(weight > most, zero, own)), gradient + j, count);
  });
}

template void density_rows(const RowsOfKeys&, float*);
template void density_rows(const RowsOfKeys&, double*);

template void softmax_rows(const RowsOfKeys&, float*, float, LogTotal<float>*);
template void softmax_rows(const RowsOfKeys&, double*, double, LogTotal<double>*);
template void join_softmax(std::span<const RowsOfKeys>, std::span<LogTotal<float>* const>, float*);
template void join_softmax(std::span<const RowsOfKeys>, std::span<LogTotal<double>* const>, double*);
template void softmax_rows_again(const RowsOfKeys&, float*, const LogTotal<float>*);
template void softmax_rows_again(const RowsOfKeys&, double*, const LogTotal<double>*);
template void softmax_rows_backward(const RowsOfKeys&, const float*, float*, float*);
template void softmax_rows_backward(const RowsOfKeys&, const double*, double*, double*);
template void subtract_means(const RowsOfKeys&, const float*, float*, const float*);
template void subtract_means(const RowsOfKeys&, const double*, double*, const double*);
template void density_row_backward(const float*, float*, std::int64_t, std::int64_t);
template void density_row_backward(const double*, double*, std::int64_t, std::int64_t);

Tensor strip_gradient_room(const Shape& shape, std::int64_t parts, DType dtype) {
  if (parts == 1) {
    const int by_position[] = {0, 2, 1, 3};  // the layout of split_heads(), so that merge_heads() need not copy
    return Tensor::empty(shape, by_position, dtype, Device::cpu);
  }
  return Tensor::empty({parts, shape[0], shape[1], shape[2], shape[3]}, dtype);
}

}  // namespace fovea
