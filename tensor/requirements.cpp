#include "tensor/requirements.h"

#include <algorithm>
#include <vector>

namespace fovea {

std::optional<std::pair<std::size_t, std::size_t>> sharing_memory(std::span<const Tensor* const> tensors) {
  std::vector<std::pair<const std::byte*, std::size_t>> begins;
  for (std::size_t k = 0; k < tensors.size(); ++k)
    if (tensors[k]->elements() > 0) begins.emplace_back(tensors[k]->address(), k);
  std::sort(begins.begin(), begins.end());
  for (std::size_t i = 1; i < begins.size(); ++i) {
    const std::size_t a = begins[i - 1].second, b = begins[i].second;
    if (begins[i - 1].first + tensors[a]->bytes() > begins[i].first) return std::pair(std::min(a, b), std::max(a, b));
  }
  return {};
}

void require_own_elements(std::string_view what, const Tensor& out) {
  for (int d = 0; d < out.rank() && out.elements() > 0; ++d)
    require(out.shape()[d] <= 1 || out.strides()[d] != 0,
            "{}: the result is an expanded view, {} with stride 0 in dimension {}; each element needs memory of its "
            "own",
            what, out.shape(), d);
}

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
  if (must) fail("{}: the {} at {} of {} {}", what, which, place(whole, position), whole, must);
  const bool is_outside = can_ignore && (ignored < least || ignored > most);
  const std::string alternative = is_outside ? fmt::format(", or {} to be ignored", ignored) : std::string();
  require(least <= most, "{}: the {} at {} of {} is {}; there is nothing to choose from{}", what, which,
          place(whole, position), whole, value, alternative);
  fail("{}: the {} at {} of {} is {}; it must be in {} to {}{}", what, which, place(whole, position), whole, value,
       least, most, alternative);
}

namespace {

RangeCheck with_shape(RangeCheck check, const Tensor& index) {
  check.rank = index.rank();
  for (int d = 0; d < index.rank(); ++d) check.shape[d] = index.size(d);
  return check;
}

void check_range(const RangeCheck& check, const Tensor& index) {
  if (index.elements() > 0) kernels(index.device()).check_range(with_shape(check, index), index);
}

}  // namespace

RangeCheck in_range(const char* what, const char* which, const Tensor& index, std::int64_t size) {
  return with_shape({what, which, nullptr, 0, size - 1, 0, false, 0, {}}, index);
}

void require_in_range(const char* what, const char* which, const Tensor& index, std::int64_t size) {
  check_range(in_range(what, which, index, size), index);
}

void require_in_range(const char* what, const char* which, const Tensor& index, std::int64_t size,
                      std::int64_t ignored) {
  check_range({what, which, nullptr, 0, size - 1, ignored, true, 0, {}}, index);
}

void require_between(const char* what, const char* which, const Tensor& index, std::int64_t least, std::int64_t most) {
  check_range({what, which, nullptr, least, most, 0, false, 0, {}}, index);
}

void require_everywhere(const char* what, const char* which, const Tensor& holds, const char* must) {
  check_range({what, which, must, 1, 1, 0, false, 0, {}}, holds.to(DType::i32));
}

}  // namespace fovea
