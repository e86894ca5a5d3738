#include "tensor/scan.h"

#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea {

Tensor cumulative_sum(const Tensor& x, bool reverse) {
  require_rows("cumulative_sum", x);
  require_real("cumulative_sum", x);
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (x.elements() > 0) kernels(x.device()).cumulative_sum(x, out, reverse);
  return out;
}

}  // namespace fovea
