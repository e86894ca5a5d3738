#include "nn/lengths.h"

#include "tensor/comparison.h"

namespace fovea {

void require_lengths(std::string_view what, const Tensor& lengths, std::int64_t B, std::int64_t least,
                     std::int64_t most) {
  if (!lengths.defined()) return;
  require(lengths.rank() == 1 && lengths.size(0) == B,
          "{}: the lengths are {}; expected one for each of the {} sentences", what, lengths, B);
  if (lengths.device() != Device::cpu) return;
  const std::vector<std::int64_t> values = lengths.to_vector<std::int64_t>();
  for (std::size_t b = 0; b < values.size(); ++b)
    require(least <= values[b] && values[b] <= most, "{}: sentence {} has length {}; lengths must be in {} ... {}",
            what, b, values[b], least, most);
}

Tensor real_positions(const Tensor& lengths, std::int64_t T, Device device) {
  const Tensor end = lengths.to(device).to(DType::i64).reshape({-1, 1});
  return less(Tensor::arange(T, DType::i64, device), end);
}

}  // namespace fovea
