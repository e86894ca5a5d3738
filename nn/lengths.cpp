#include "nn/lengths.h"

#include "tensor/comparison.h"
#include "tensor/requirements.h"

namespace fovea {

void require_lengths(const char* what, const Tensor& lengths, std::int64_t B, std::int64_t least, std::int64_t most) {
  if (!lengths.defined()) return;
  require(lengths.rank() == 1 && lengths.size(0) == B,
          "{}: the lengths are {}; expected one for each of the {} sentences", what, lengths, B);
  require_between(what, "length", lengths, least, most);
}

Tensor real_positions(const Tensor& lengths, std::int64_t T, Device device) {
  const Tensor end = lengths.to(device).to(DType::i64).reshape({-1, 1});
  return less(Tensor::arange(T, DType::i64, device), end);
}

}  // namespace fovea
