/// A loop over the elements of several strided tensors of one broadcast shape at once: how it is planned, and how it is
/// run on several threads. The CPU kernels of element-wise operations use it.
#pragma once
#include <array>
#include <cstdint>

#include "tensor/cpu/parallel.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace fovea {

/// A planned loop: its shape, and the strides of each operand in it. Neighbouring dimensions have been merged where
/// they are contiguous for every operand, so the rank is usually 1. A row of the loop is its last dimension. Strides
/// are in elements; an operand has stride 0 in a dimension that it is broadcast along.
template <int operands>
struct ElementLoop {
  Shape shape;
  std::array<Shape, operands> strides;

  int rank() const { return shape.rank(); }
  std::int64_t inner() const { return shape[-1]; }
  std::int64_t rows() const { return inner() == 0 ? 0 : shape.elements() / inner(); }

  /// Calls body(offsets) for rows begin ≤ row < end, where offsets[k] is the offset in operand k, in elements, of the
  /// first element of the row.
  template <class Body>
  void for_rows(std::int64_t begin, std::int64_t end, Body&& body) const {
    int outer = rank() - 1;
    std::int64_t index[Shape::max_rank] = {};
    std::array<std::int64_t, operands> offset{};
    std::int64_t rest = begin;
    for (int d = outer - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
      for (int k = 0; k < operands; ++k) offset[k] += index[d] * strides[k][d];
    }
    for (std::int64_t row = begin; row < end; ++row) {
      body(offset);
      for (int d = outer - 1; d >= 0; --d) {
        for (int k = 0; k < operands; ++k) offset[k] += strides[k][d];
        if (++index[d] < shape[d]) break;
        for (int k = 0; k < operands; ++k) offset[k] -= index[d] * strides[k][d];
        index[d] = 0;
      }
    }
  }
};

/// Plans the loop over `shape`, to which all tensors must broadcast. Its dimensions are ordered from the largest to the
/// smallest stride of the first tensor, and neighbouring dimensions are merged where the strides of all tensors allow
/// it.
template <int operands>
ElementLoop<operands> plan_loop(const Shape& shape, const std::array<const Tensor*, operands>& tensors) {
  ElementLoop<operands> loop;
  auto stride = [&](int k, int d) {  // stride of tensor k in dimension d of `shape`, 0 where the tensor is broadcast
    int own = d - (shape.rank() - tensors[k]->rank());
    return own < 0 || tensors[k]->shape()[own] == 1 ? std::int64_t{0} : tensors[k]->strides()[own];
  };
  Shape first = shape;
  for (int d = 0; d < shape.rank(); ++d) first[d] = stride(0, d);
  const auto order = memory_order(first);
  for (int place = 0; place < shape.rank(); ++place) {
    const int d = order[static_cast<std::size_t>(place)];
    if (shape[d] == 1) continue;
    bool merges = loop.rank() > 0;
    for (int k = 0; k < operands && merges; ++k) merges = loop.strides[k][-1] == stride(k, d) * shape[d];
    if (merges) {
      loop.shape[-1] *= shape[d];
      for (int k = 0; k < operands; ++k) loop.strides[k][-1] = stride(k, d);
    } else {
      loop.shape.push_back(shape[d]);
      for (int k = 0; k < operands; ++k) loop.strides[k].push_back(stride(k, d));
    }
  }
  if (loop.rank() == 0) {
    loop.shape.push_back(1);
    for (int k = 0; k < operands; ++k) loop.strides[k].push_back(0);
  }
  return loop;
}

/// The body of a loop over runs, which are stretches of a row: handles `count` elements, the first of which is at
/// offsets[k] in operand k.
template <int operands>
using RunBody = FunctionRef<void(const std::array<std::int64_t, operands>& offsets, std::int64_t count)>;

/// Calls `body` for runs that together cover the loop, on several threads where there is enough work. A run is a whole
/// row, or a part of a row if there are fewer than 16 rows and they are long. Within a run, the elements of operand k
/// are loop.strides[k][-1] apart. `cost` is the work per element, in additions. To use another number of operands, add
/// an instantiation at the end of cpu/element_loop.cpp.
template <int operands>
void for_runs(const ElementLoop<operands>& loop, RunBody<operands> body, std::int64_t cost = 1);

}  // namespace fovea
