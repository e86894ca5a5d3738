#include "autograd/operations/cumulative_sum.h"

#include "autograd/node.h"
#include "autograd/operations.h"
#include "tensor/cpu/row.h"
#include "tensor/operands.h"

namespace fovea {

namespace {

const cpu::ProvideRows provide{formula::CumulativeSumFormulas{}};

}  // namespace

Tensor cumulative_sum(const Tensor& x, bool reverse) {
  check("cumulative_sum", {{"x", x, "... n"}});
  return apply_to_rows(formula::CumulativeSum{{}, reverse}, {&x});
}

Variable cumulative_sum(const Variable& x, bool reverse) {
  return record("cumulative_sum", cumulative_sum(x.value_for("cumulative_sum"), reverse), {x},
                [reverse](const Variable& g) { return cumulative_sum(g, !reverse); });
}

}  // namespace fovea
