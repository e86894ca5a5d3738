#include "tensor/top_k.h"

#include <limits>

#include "tensor/kernels.h"
#include "tensor/operands.h"

namespace fovea {

TopK top_k(const Tensor& x, std::int64_t k) {
  check("top_k", {{"x", x, "... n"}});
  require(0 < k && k <= x.size(-1), "top_k: k is {}, a row of {} has {} elements", k, x, x.size(-1));
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
  require(x.size(-1) <= longest, "top_k: a row of {} has {} elements; the index, i32, can number {}", x, x.size(-1),
          longest);
  Shape shape = x.shape();
  shape[-1] = k;
  TopK out{Tensor::empty(shape, x.dtype(), x.device()), Tensor::empty(shape, DType::i32, x.device())};
  if (x.elements() > 0) kernels(x.device()).top_k(x, out);
  return out;
}

}  // namespace fovea
