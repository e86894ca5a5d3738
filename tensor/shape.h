/// The sizes of the dimensions of a tensor, stored inline without heap allocation, and broadcasting of shapes.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tensor/error.h"

namespace fovea {

/// A list of up to eight sizes or strides. Negative positions count from the end, so shape[-1] is the last size. A
/// position out of range throws Error.
class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes) {
    if (sizes.size() > max_rank) [[unlikely]]
      refuse_rank(sizes);
    std::copy(sizes.begin(), sizes.end(), sizes_.begin());
    rank_ = static_cast<int>(sizes.size());
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return sizes_[position(dim)]; }
  std::int64_t& operator[](int dim) { return sizes_[position(dim)]; }
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }

  void push_back(std::int64_t size) {
    if (rank_ == max_rank) [[unlikely]]
      refuse_one_more(size);
    sizes_[static_cast<std::size_t>(rank_++)] = size;
  }
  void insert(int dim, std::int64_t size);
  void erase(int dim);

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (std::int64_t size : *this) product *= size;
    return product;
  }
  std::string str() const;  ///< "[8, 20, 64]"
  std::string describe() const { return str(); }

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

  /// Returns `dim` as a position in 0 ... rank − 1; a negative `dim` counts from the end. Throws Error if it is out of
  /// range; the message begins with `what`, the name of the operation.
  int dimension(const char* what, int dim) const;

 private:
  std::size_t position(int dim) const {
    const int position = dim < 0 ? dim + rank_ : dim;
    if (static_cast<unsigned>(position) >= static_cast<unsigned>(rank_)) [[unlikely]]
      refuse_dimension("Shape", dim);
    return static_cast<std::size_t>(position);
  }
  [[noreturn]] void refuse_dimension(const char* what, int dim) const;
  [[noreturn]] void refuse_one_more(std::int64_t size) const;
  [[noreturn]] static void refuse_rank(std::span<const std::int64_t> sizes);

  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

/// Returns the shape that `a` and `b` broadcast to, by the rule of NumPy: sizes are aligned at the end, and two aligned
/// sizes must be equal or one of them 1. Throws Error otherwise; the message begins with `what`.
Shape broadcast(const char* what, const Shape& a, const Shape& b);

/// Whether a tensor of shape `from` broadcasts to the shape `to`, which does not change by it.
bool broadcasts_to(const Shape& from, const Shape& to);

/// Throws Error unless all sizes are at least 0 and their product, without those that are 0, is at most 2^60: then no
/// number of elements, stride or offset overflows. The message begins with `what`.
void require_countable(const char* what, const Shape& shape);

/// Returns all sizes but the last: the shape of a result that has one number for each row.
inline Shape leading_shape(const Shape& shape) {
  Shape leading = shape;
  leading.erase(shape.rank() - 1);
  return leading;
}

/// Returns the strides of a contiguous (row-major) tensor of this shape, in elements.
Shape contiguous_strides(const Shape& shape);

/// Returns the dimensions sorted from the largest stride to the smallest. Dimensions of stride 0 come first; dimensions
/// of equal stride keep their order.
std::array<int, Shape::max_rank> memory_order(const Shape& strides);

}  // namespace fovea
