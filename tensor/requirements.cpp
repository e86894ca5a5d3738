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

void require_in_range(const char* what, const char* which, const Tensor& index, std::int64_t size,
                      std::int64_t ignored) {
  if (index.elements() == 0) return;
  const std::int64_t position = kernels(index.device()).first_outside(index, size, ignored);
  if (position < 0) return;
  const double bad = index.reshape({-1}).select(0, position).item();
  const bool can_be_ignored = ignored < 0 || ignored >= size;
  fail("{}: the {} at {} of {} is {}; it must be in 0 to {}{}", what, which, place(index.shape(), position),
       index.shape(), static_cast<std::int64_t>(bad), size - 1,
       can_be_ignored ? fmt::format(", or {} to be ignored", ignored) : std::string());
}

}  // namespace fovea
