#include "attention/strips.h"

#include <limits>

#include "tensor/math.h"

namespace fovea {

namespace {

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

template <class T>
T largest(const T* z, std::int64_t first, std::int64_t end, T start) {
  Vec<T> maximum(start);
  for_keys<T>(first, end, [&](std::int64_t j, auto count) {
    Vec<T> x = filled(load_vector(z + j, count), count, -infinity<T>);
    maximum = select((maximum < x) | (x != x), x, maximum);  // NaN wins
  });
  return horizontal_max(maximum);
}

}  // namespace

template <class T>
T softmax_row(T* z, std::int64_t first, std::int64_t end, T sink) {
  T maximum = largest(z, first, end, sink);
  if (maximum == -infinity<T>) {  // nothing to see: weights 0, and exp(z − lse) = 0 in the backward pass too
    std::fill(z + first, z + end, T(0));
    return infinity<T>;
  }
  const Vec<T> shift(maximum);
  T total = sum_of_vectors<T>(end - first, [&](std::int64_t j, auto count) {
    Vec<T> e = filled(exp(load_vector(z + first + j, count) - shift), count, T(0));
    store_vector(e, z + first + j, count);
    return e;
  });
  total += exp(sink - maximum);
  const Vec<T> scale(T(1) / total);
  for_keys<T>(first, end,
              [&](std::int64_t j, auto count) { store_vector(load_vector(z + j, count) * scale, z + j, count); });
  return maximum + log(total);
}

template <class T>
void softmax_row_again(T* z, std::int64_t first, std::int64_t end, T log_total) {
  const Vec<T> shift(log_total);
  for_keys<T>(first, end,
              [&](std::int64_t j, auto count) { store_vector(exp(load_vector(z + j, count) - shift), z + j, count); });
}

template <class T>
T softmax_row_backward(const T* weights, T* gradient, std::int64_t first, std::int64_t end) {
  const Vec<T> zero(T(0));
  // Where a weight is 0 its gradient may be anything: it is not looked at.
  auto weighted = [&](std::int64_t j, auto count) {
    Vec<T> weight = load_vector(weights + j, count);
    return select(weight == zero, zero, weight * load_vector(gradient + j, count));
  };
  T mean = sum_of_vectors<T>(end - first, [&](std::int64_t j, auto count) { return weighted(first + j, count); });
  for_keys<T>(first, end, [&](std::int64_t j, auto count) {
    Vec<T> weight = load_vector(weights + j, count), g = load_vector(gradient + j, count);
    store_vector(select(weight == zero, zero, weight * (g - Vec<T>(mean))), gradient + j, count);
  });
  return mean;
}

template <class T>
void density_row_backward(const T* weights, T* gradient, std::int64_t first, std::int64_t end) {
  const Vec<T> zero(T(0));
  for_keys<T>(first, end, [&](std::int64_t j, auto count) {
    Vec<T> weight = load_vector(weights + j, count);
    store_vector(select(weight == zero, zero, weight * load_vector(gradient + j, count)), gradient + j, count);
  });
}

template <class T>
void prefix_sum_row(const T* x, T* out, std::int64_t first, std::int64_t end) {
  double carry = 0;
  for_keys<T>(first, end, [&](std::int64_t j, auto count) {
    Vec<T> sums = prefix_sums(filled(load_vector(x + j, count), count, T(0)));
    store_vector(sums + Vec<T>(static_cast<T>(carry)), out + j, count);
    carry += static_cast<double>(sums[Vec<T>::lanes - 1]);
  });
}

template <class T>
void suffix_sum_row(const T* x, T* out, std::int64_t first, std::int64_t end) {
  double carry = 0;
  auto chunk = [&](std::int64_t j, auto count) {
    Vec<T> sums = suffix_sums(filled(load_vector(x + j, count), count, T(0)));
    store_vector(sums + Vec<T>(static_cast<T>(carry)), out + j, count);
    carry += static_cast<double>(sums[0]);
  };
  std::int64_t j = end - Vec<T>::lanes;
  for (; j >= first; j -= Vec<T>::lanes) chunk(j, WholeVector<T>{});
  if (j + Vec<T>::lanes > first) chunk(first, static_cast<int>(j + Vec<T>::lanes - first));
}

template void prefix_sum_row(const float*, float*, std::int64_t, std::int64_t);
template void prefix_sum_row(const double*, double*, std::int64_t, std::int64_t);
template void suffix_sum_row(const float*, float*, std::int64_t, std::int64_t);
template void suffix_sum_row(const double*, double*, std::int64_t, std::int64_t);
template float softmax_row(float*, std::int64_t, std::int64_t, float);
template double softmax_row(double*, std::int64_t, std::int64_t, double);
template void softmax_row_again(float*, std::int64_t, std::int64_t, float);
template void softmax_row_again(double*, std::int64_t, std::int64_t, double);
template float softmax_row_backward(const float*, float*, std::int64_t, std::int64_t);
template double softmax_row_backward(const double*, double*, std::int64_t, std::int64_t);
template void density_row_backward(const float*, float*, std::int64_t, std::int64_t);
template void density_row_backward(const double*, double*, std::int64_t, std::int64_t);

Tensor strip_gradient_room(const Shape& shape, std::int64_t parts, DType dtype) {
  if (parts == 1) {
    const int by_position[] = {0, 2, 1, 3};  // as split_heads lays them out: merging the heads is free
    return Tensor::empty(shape, by_position, dtype, Device::cpu);
  }
  return Tensor::empty({parts, shape[0], shape[1], shape[2], shape[3]}, dtype);
}

}  // namespace fovea
