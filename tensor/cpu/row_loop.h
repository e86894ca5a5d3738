/// Loops over the rows of tensors, for kernels that compute one row at a time. A row is the last dimension of an
/// operand; all dimensions before it form one list of rows.
#pragma once
#include <string_view>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/simd.h"
#include "tensor/element_loop.h"

namespace fovea {

/// Returns x, or a contiguous copy if the elements of x's rows are not contiguous. The rows of the result may have any
/// distance from each other, also 0 where x is broadcast.
inline Tensor with_unit_rows(const Tensor& x) {
  return x.rank() == 0 || x.size(-1) <= 1 || x.strides()[-1] == 1 ? x : x.contiguous();
}

/// The rows of a matrix, each of which is contiguous; rows[i] is the address of row i.
template <class T>
struct Rows {
  T* first;
  std::int64_t step;

  explicit Rows(const Tensor& x) : step(x.strides()[0]) {
    if constexpr (std::is_const_v<T>)
      first = x.data<std::remove_const_t<T>>();
    else
      first = x.mutable_data<T>();
  }
  T* operator[](std::int64_t row) const { return first + row * step; }
};

/// Returns the loop over the rows of several operands. All dimensions of an operand but the last broadcast to
/// `leading`; the last may have any size.
template <int operands>
ElementLoop<operands> plan_rows(const Shape& leading, const std::array<const Tensor*, operands>& tensors) {
  std::array<Tensor, operands> starts;
  std::array<const Tensor*, operands> addresses;
  for (int k = 0; k < operands; ++k) {
    const Tensor& x = *tensors[k];
    starts[k] = x.as_strided(leading_shape(x.shape()), leading_shape(x.strides()));
    addresses[k] = &starts[k];
  }
  ElementLoop<operands> loop = plan_loop<operands>(leading, addresses);
  loop.shape.push_back(1);
  for (Shape& strides : loop.strides) strides.push_back(0);
  return loop;
}

/// Calls body(offsets) for every row, on several threads; offsets[k] is where the row begins in operand k. `row_cost`
/// is the work of a row in units of simple arithmetic.
template <int operands, class Body>
void parallel_rows(const ElementLoop<operands>& loop, std::int64_t row_cost, Body&& body) {
  parallel_for(loop.rows(), 1 + element_grain / (row_cost + 1),
               [&](std::int64_t begin, std::int64_t end) { loop.for_rows(begin, end, body); });
}

/// The number of elements in a whole vector, as a type: the compiler then knows that no lane is empty.
template <class T>
using WholeVector = std::integral_constant<int, Vec<T>::lanes>;

/// Calls body(j, count) for each vector of a row of n elements; j is its first element. `count` is a WholeVector<T>,
/// except for a last vector that is only partly filled, where it is an int.
template <class T, class Body>
FOVEA_INLINE void for_vectors(std::int64_t n, Body&& body) {
  std::int64_t j = 0;
  for (; j + Vec<T>::lanes <= n; j += Vec<T>::lanes) body(j, WholeVector<T>{});
  if (j < n) body(j, static_cast<int>(n - j));
}

/// Returns Σ term(j, count) over the vectors of a row, as one vector: lanes are not added to each other. Four
/// independent accumulators avoid waiting for the previous addition.
template <class T, class Term>
FOVEA_INLINE Vec<T> vector_of_sums(std::int64_t n, Term&& term) {
  constexpr int lanes = Vec<T>::lanes;
  const Vec<T> zero(T(0));
  Vec<T> part[4] = {zero, zero, zero, zero};
  std::int64_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes)
    for (int k = 0; k < 4; ++k) part[k] += term(j + k * lanes, WholeVector<T>{});
  for_vectors<T>(n - j, [&](std::int64_t i, auto count) { part[0] += term(j + i, count); });
  return (part[0] + part[1]) + (part[2] + part[3]);
}
/// Returns Σ term(j, count) over the vectors of a row, with all lanes added up.
template <class T, class Term>
FOVEA_INLINE T sum_of_vectors(std::int64_t n, Term&& term) {
  return horizontal_sum(vector_of_sums<T>(n, term));
}

template <class T>
FOVEA_INLINE Vec<T> load_vector(const T* from, WholeVector<T>) {
  return Vec<T>::load(from);
}
template <class T>
FOVEA_INLINE Vec<T> load_vector(const T* from, int count) {
  return Vec<T>::load_partial(from, count);
}
template <class T>
FOVEA_INLINE void store_vector(Vec<T> v, T* to, WholeVector<T>) {
  v.store(to);
}
template <class T>
FOVEA_INLINE void store_vector(Vec<T> v, T* to, int count) {
  v.store_partial(to, count);
}

/// Returns a mask that is true in the first `count` lanes, which are those in use in the last vector of a row.
template <class T>
FOVEA_INLINE LaneMask<T> lanes_below(int count) {
  typename NativeVector<IntegerOf<T>>::Type lane;
  for (int k = 0; k < Vec<T>::lanes; ++k) lane[k] = k;
  return {lane < static_cast<IntegerOf<T>>(count)};
}

/// Returns v, with `otherwise` in the lanes past the end of the row.
template <class T>
FOVEA_INLINE Vec<T> filled(Vec<T> v, WholeVector<T>, T) {
  return v;
}
template <class T>
FOVEA_INLINE Vec<T> filled(Vec<T> v, int count, T otherwise) {
  return select(lanes_below<T>(count), v, Vec<T>(otherwise));
}

}  // namespace fovea
