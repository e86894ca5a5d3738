// The masks of row formulas, for loops in vectors. The kernels are compiled in the files of the operations.
#include "tensor/cpu/row.h"

namespace fovea::cpu {

Tensor padded_mask(const Tensor& allow, std::int64_t n) {
  constexpr std::int64_t lanes = Vec<float>::lanes;
  if (n % lanes == 0 && allow.is_contiguous() && allow.size(-1) == n) return allow;
  Shape shape = allow.shape();
  shape[-1] = (n + lanes - 1) / lanes * lanes;
  Tensor padded = Tensor::zeros(shape, allow.dtype());
  padded.slice(-1, 0, n).copy_from(allow);
  return padded;
}

}  // namespace fovea::cpu
