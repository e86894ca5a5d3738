/// How one loop walks several strided operands of one shape at once.
#pragma once
#include <array>
#include <cstdint>

#include "tensor/cpu/parallel.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace fovea {

/// The loop over a broadcast shape, after dimensions that are contiguous for every operand have been merged: most
/// tensors come out with rank 1. Strides are in elements; a broadcast operand has stride 0.
template <int operands>
struct ElementLoop {
  Shape shape;
  std::array<Shape, operands> strides;

  int rank() const { return shape.rank(); }
  std::int64_t inner() const { return shape[-1]; }
  std::int64_t rows() const { return inner() == 0 ? 0 : shape.elements() / inner(); }

  /// Calls body(offsets) for rows begin ≤ row < end, where offsets[k] is operand k's offset of that row's start.
  template <class Body>
  void for_rows(std::int64_t begin, std::int64_t end, Body&& body) const {
    int outer = rank() - 1;
    std::array<std::int64_t, Shape::max_rank> index{};
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

/// Operands broadcast to `shape`. Dimensions come in the order in which the first operand has them in memory, and
/// neighbours are merged wherever all operands allow it.
template <int operands>
ElementLoop<operands> plan_loop(const Shape& shape, const std::array<const Tensor*, operands>& tensors) {
  ElementLoop<operands> loop;
  auto stride = [&](int k, int d) {  // d counts in `shape`
    int own = d - (shape.rank() - tensors[k]->rank());
    return own < 0 || tensors[k]->shape()[own] == 1 ? std::int64_t{0} : tensors[k]->strides()[own];
  };
  Shape first = shape;
  for (int d = 0; d < shape.rank(); ++d) first[d] = stride(0, d);
  const auto order = memory_order(first);
  for (int place = 0; place < shape.rank(); ++place) {
    const int d = order[place];
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

/// The body of a loop over runs: handles `count` elements, which begin at offsets[k] in operand k.
template <int operands>
using RunBody = FunctionRef<void(const std::array<std::int64_t, operands>& offsets, std::int64_t count)>;

/// Calls body for the runs of the loop, on several threads where that pays: a run is a row or, where there are few and
/// long ones, a part of one; operand k's elements lie strides[k][-1] apart. `cost` is an element's work in additions.
/// Compiled for the numbers of operands at the end of cpu/element_loop.cpp.
template <int operands>
void for_runs(const ElementLoop<operands>& loop, RunBody<operands> body, std::int64_t cost = 1);

}  // namespace fovea
