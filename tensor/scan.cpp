#include "tensor/scan.h"

#include "tensor/requirements.h"
#include "tensor/rows.h"

namespace fovea {

Tensor cumulative_sum(const Tensor& x, bool reverse) {
  require_rows("cumulative_sum", x);
  require_real("cumulative_sum", x);
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (x.elements() > 0)
    run_rows(formula::CumulativeSum{{}, reverse}, {leading_shape(x.shape()), x.size(-1), {&x}, {&out}});
  return out;
}

}  // namespace fovea
