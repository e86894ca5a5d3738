#include "tensor/shape.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tensor/dtype.h"

namespace fovea {

namespace {

std::string in_brackets(std::span<const std::int64_t> sizes) {
  std::string text = "[";
  for (std::int64_t size : sizes) text += fmt::format("{}{}", text.size() > 1 ? ", " : "", size);
  return text + "]";
}

}  // namespace

std::string Shape::str() const { return in_brackets(std::span(begin(), end())); }

void Shape::insert(int dim, std::int64_t size) {
  push_back(size);
  std::rotate(sizes_.begin() + dim, sizes_.begin() + rank_ - 1, sizes_.begin() + rank_);
}

void Shape::erase(int dim) {
  std::rotate(sizes_.begin() + dim, sizes_.begin() + dim + 1, sizes_.begin() + rank_);
  sizes_[--rank_] = 0;
}

int Shape::dimension(const char* what, int dim) const {
  if (dim < -rank_ || dim >= rank_) [[unlikely]]
    refuse_dimension(what, dim);
  return dim < 0 ? dim + rank_ : dim;
}

void Shape::refuse_dimension(const char* what, int dim) const {
  require(rank_ > 0, "{}: dimension {} is out of range for [], which has no dimensions", what, dim);
  fail("{}: dimension {} is out of range for {}; use {} to {}", what, dim, *this, -rank_, rank_ - 1);
}

void Shape::refuse_one_more(std::int64_t size) const {
  fail("Shape: {} has {} dimensions, the most a tensor can have; merge some with reshape before adding one of {}",
       *this, rank_, size);
}

void Shape::refuse_rank(std::span<const std::int64_t> sizes) {
  fail("Shape: {} has {} dimensions, a tensor at most {}; merge some of them, as reshape does", in_brackets(sizes),
       sizes.size(), int{max_rank});
}

Shape broadcast(const char* what, const Shape& a, const Shape& b) {
  Shape out = a.rank() >= b.rank() ? a : b;
  int shared = std::min(a.rank(), b.rank());
  for (int d = -1; d >= -shared; --d) {
    require(a[d] == b[d] || a[d] == 1 || b[d] == 1,
            "{}: {} and {} do not broadcast: dimension {} from the end is {} and {}; they must be equal or 1", what, a,
            b, -d, a[d], b[d]);
    out[d] = a[d] == 1 ? b[d] : a[d];
  }
  return out;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int added = to.rank() - from.rank();
  if (added < 0) return false;
  for (int d = 0; d < from.rank(); ++d)
    if (from[d] != 1 && from[d] != to[d + added]) return false;
  return true;
}

void require_countable(const char* what, const Shape& shape) {
  std::int64_t product = 1;
  for (std::int64_t size : shape) {
    require(size >= 0, "{}: a size cannot be negative: {}", what, shape);
    const bool overflows = size != 0 && __builtin_mul_overflow(product, size, &product);
    require(!overflows && product <= std::int64_t{1} << 60,
            "{}: the sizes of {} multiply to more than 2^60, the most that a tensor can have", what, shape);
  }
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

std::array<int, Shape::max_rank> memory_order(const Shape& strides) {
  std::array<int, Shape::max_rank> order{};
  std::iota(order.begin(), order.end(), 0);
  auto comes_before = [&](int a, int b) {
    return strides[b] != 0 && (strides[a] == 0 || std::abs(strides[a]) > std::abs(strides[b]));
  };
  for (int d = 1; d < strides.rank(); ++d)  // insertion sort: the dimensions are nearly always in order already
    for (int at = d; at > 0 && comes_before(order[at], order[at - 1]); --at) std::swap(order[at], order[at - 1]);
  return order;
}

std::string_view name(DType dtype) {
  constexpr std::string_view names[] = {"f32", "f64", "bf16", "i32", "i64", "u8", "bool"};
  return names[static_cast<std::size_t>(dtype)];
}

}  // namespace fovea
