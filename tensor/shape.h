/// Sizes of a tensor's dimensions: a small array, no allocation.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tensor/error.h"

namespace fovea {

/// Up to eight sizes (or strides). Negative positions count from the end: shape[-1] is the last size. A position that
/// there is no size for is an error.
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
    sizes_[rank_++] = size;
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

  /// 0 ≤ position < rank of `dim`, which may count from the end. Throws naming `what`.
  int dimension(const char* what, int dim) const;

 private:
  int position(int dim) const {
    const int position = dim < 0 ? dim + rank_ : dim;
    if (static_cast<unsigned>(position) >= static_cast<unsigned>(rank_)) [[unlikely]]
      refuse_dimension("Shape", dim);
    return position;
  }
  [[noreturn]] void refuse_dimension(const char* what, int dim) const;
  [[noreturn]] void refuse_one_more(std::int64_t size) const;
  [[noreturn]] static void refuse_rank(std::span<const std::int64_t> sizes);

  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

/// The shape both broadcast to, NumPy's rule: sizes are aligned at the end and are equal or 1. Throws naming `what`.
Shape broadcast(const char* what, const Shape& a, const Shape& b);

/// The sizes before the last: the shape of results that have one number for each row.
inline Shape leading_shape(const Shape& shape) {
  Shape leading = shape;
  leading.erase(shape.rank() - 1);
  return leading;
}

/// Row-major strides, in elements.
Shape contiguous_strides(const Shape& shape);

/// The dimensions from the largest stride to the smallest, those of stride 0 first; equals keep their order.
std::array<int, Shape::max_rank> memory_order(const Shape& strides);

}  // namespace fovea
