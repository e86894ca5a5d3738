/// The bytes that kernels move between the GPU's memory and its processors.
#pragma once
#include "tensor/tensor.h"

namespace fovea::cuda {

/// Returns the bytes of the elements that x has in memory. Elements that are broadcast share one place, and count once.
/// 0 for an undefined tensor.
inline std::int64_t bytes_in_memory(const Tensor& x) {
  if (!x.defined()) return 0;
  auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  for (int d = 0; d < x.rank(); ++d)
    if (x.strides()[d] != 0 || x.size(d) == 0) bytes *= x.size(d);
  return bytes;
}

/// Returns the least number of bytes that a kernel moves if it reads or writes each element of its operands.
template <class... Tensors>
std::int64_t traffic(const Tensors&... operands) {
  return (bytes_in_memory(operands) + ...);
}

}  // namespace fovea::cuda
