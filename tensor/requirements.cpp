#include "tensor/requirements.h"

namespace fovea {

namespace {

/// Returns the index, such as "[2, 0, 5]", of the element of `shape` at `position` in row-major order.
std::string place(const Shape& shape, std::int64_t position) {
  Shape index = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = position % shape[d];
    position /= shape[d];
  }
  return index.str();
}

}  // namespace

void RangeCheck::fail_at(std::int64_t position, std::int64_t value) const {
  const Shape whole(std::span<const std::int64_t>(shape, static_cast<std::size_t>(rank)));
  const bool can_be_ignored = ignored < 0 || ignored >= size;
  fail("{}: the {} at {} of {} is {}; it must be in 0 to {}{}", what, which, place(whole, position), whole, value,
       size - 1, can_be_ignored ? fmt::format(", or {} to be ignored", ignored) : std::string());
}

void require_in_range(const char* what, const char* which, const Tensor& index, std::int64_t size,
                      std::int64_t ignored) {
  if (index.elements() == 0) return;
  RangeCheck check{what, which, size, ignored, index.rank(), {}};
  for (int d = 0; d < index.rank(); ++d) check.shape[d] = index.size(d);
  kernels(index.device()).check_range(check, index);
}

}  // namespace fovea
