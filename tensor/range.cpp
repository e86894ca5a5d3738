#include "tensor/range.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/row.h"
#include "tensor/operands.h"

namespace fovea {

namespace {

const cpu::ProvideRows provide{formula::RangeFormulas{}};

/// are_within() for a contiguous tensor on the CPU.
template <class T>
bool are_all_within(const Tensor& x, double limit) {
  const T* numbers = x.data<T>();
  const T largest = static_cast<T>(limit);
  std::atomic<bool> inside = true;
  parallel_for(x.elements(), 4 * element_grain, [&](std::int64_t begin, std::int64_t end) {
    int found = 0;  // without a branch: the compiler makes vectors of it
    for (std::int64_t k = begin; k < end; ++k) found |= !(std::abs(numbers[k]) <= largest);  // true for NaN
    if (found) inside = false;
  });
  return inside;
}

}  // namespace

bool are_within(const Tensor& x, double limit) {
  require(x.dtype() == DType::f32 || x.dtype() == DType::f64, "are_within: the tensor is {}; it must be f32 or f64", x);
  const Tensor numbers = x.to(Device::cpu).contiguous();
  return x.dtype() == DType::f64 ? are_all_within<double>(numbers, limit) : are_all_within<float>(numbers, limit);
}

bool are_finite(const Tensor& x) {
  return are_within(x, x.dtype() == DType::f64 ? std::numeric_limits<double>::max()
                                               : static_cast<double>(std::numeric_limits<float>::max()));
}

RowsWithinRange rows_within_range(const Tensor& x, const Tensor& allowed, double hidden, double seen) {
  check("rows_within_range", {{"x", x, "... n"}});
  const Shape rows = leading_shape(x.shape());
  RowsWithinRange out{Tensor::empty(x.shape(), x.dtype(), x.device()), Tensor::empty(rows, x.dtype(), x.device())};
  if (x.size(-1) == 0) out.marks.fill(0);
  const Tensor mask = allowed.defined() ? allowed.unsqueeze(-1).expand(x.shape()) : Tensor();
  run_rows(formula::WithinRange{{}, hidden, seen}, {rows, x.size(-1), {&x}, {&out.kept, &out.marks}, &mask});
  return out;
}

Tensor sum_of_allowed(const Tensor& x, const Tensor& allowed, const Tensor& start) {
  check("sum_of_allowed", {{"x", x, "B J"}, {"the start", start, "B I"}});
  const Tensor of_queries = x.unsqueeze(1);  // [B, 1, J]
  Tensor out = Tensor::empty(start.shape(), x.dtype(), x.device());
  run_rows(formula::AllowedSum{}, {start.shape(), x.size(-1), {&of_queries, &start}, {&out}, &allowed});
  return out;
}

}  // namespace fovea
