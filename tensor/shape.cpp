#include "tensor/shape.h"

#include <algorithm>

#include "tensor/dtype.h"

namespace fovea {

std::string Shape::str() const {
  std::string text = "[";
  for (int d = 0; d < rank_; ++d) text += fmt::format("{}{}", d ? ", " : "", sizes_[d]);
  return text + "]";
}

void Shape::insert(int dim, std::int64_t size) {
  push_back(size);
  std::rotate(sizes_.begin() + dim, sizes_.begin() + rank_ - 1, sizes_.begin() + rank_);
}

void Shape::erase(int dim) {
  std::rotate(sizes_.begin() + dim, sizes_.begin() + dim + 1, sizes_.begin() + rank_);
  sizes_[--rank_] = 0;
}

int Shape::dimension(const char* what, int dim) const {
  require(-rank_ <= dim && dim < rank_, "{}: dimension {} is out of range for {}; use {} to {}", what, dim, *this,
          -rank_, rank_ - 1);
  return position(dim);
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

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
  }
  return "unknown";
}

}  // namespace fovea
