#include "tensor/gemm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include "tensor/formula/arithmetic.h"
#include "tensor/kernels.h"
#include "tensor/map.h"
#include "tensor/reduce.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

std::atomic<Precision> precision = Precision::f32;
std::atomic<std::uint64_t> calls = 0, nanoseconds = 0;
std::atomic<double> flops = 0;

using Clock = std::chrono::steady_clock;

/// Adds one product, its floating-point operations and the time since `begin` to the statistics.
void count_product(const Tensor& a, const Tensor& c, Clock::time_point begin) {
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
  calls.fetch_add(1, std::memory_order_relaxed);
  flops.fetch_add(2.0 * static_cast<double>(c.elements()) * static_cast<double>(a.size(-1)), std::memory_order_relaxed);
  nanoseconds.fetch_add(static_cast<std::uint64_t>(elapsed), std::memory_order_relaxed);
}

void check_operands(const char* what, const Tensor& a, const Tensor& b) {
  require(a.defined() && b.defined(), "{}: a is {}, b is {}; both must be defined", what, a, b);
  require_real(what, a);
  require(a.rank() >= 2 && b.rank() >= 2, "{}: needs matrices, [..., m, k] and [..., k, n]: a is {}, b is {}", what,
          a.shape(), b.shape());
  require(a.dtype() == b.dtype(), "{}: a is {}, b is {}; cast one of them", what, name(a.dtype()), name(b.dtype()));
  require(a.device() == b.device(), "{}: a is on {}, b is on {}; move one of them", what, name(a.device()),
          name(b.device()));
  require(a.size(-1) == b.size(-2),
          "{}: the inner dimensions differ: a is {}, b is {}; a's last ({}) must equal b's second to last ({})", what,
          a.shape(), b.shape(), a.size(-1), b.size(-2));
}

void check_matrices(const char* what, const Tensor& a, const Tensor& b) {
  check_operands(what, a, b);
  require(a.rank() == 2 && b.rank() == 2, "{}: a is {}, b is {}; both must be matrices", what, a.shape(), b.shape());
}

/// Returns the shape of the product a b, [batch..., m, n]. Throws Error if the batch dimensions do not broadcast.
Shape product_shape(const char* what, const Tensor& a, const Tensor& b) {
  Shape out = a.rank() >= b.rank() ? a.shape() : b.shape();
  for (int d = -3; d >= -std::min(a.rank(), b.rank()); --d) {
    std::int64_t one = a.shape()[d], other = b.shape()[d];
    require(one == other || one == 1 || other == 1,
            "{}: the batch dimensions do not broadcast: a is {}, b is {}; {} and {} must be equal or 1", what,
            a.shape(), b.shape(), one, other);
    out[d] = one == 1 ? other : one;
  }
  out[-2] = a.size(-2);
  out[-1] = b.size(-1);
  return out;
}

void check_result(const char* what, const Tensor& a, const Tensor& b, const Tensor& c) {
  const Shape needed = product_shape(what, a, b);
  require(c.defined(), "{}: c is undefined; it must be {}", what, needed);
  require(c.shape() == needed, "{}: c is {}, the product of {} and {} is {}", what, c.shape(), a.shape(), b.shape(),
          needed);
  require(c.dtype() == a.dtype() && c.device() == a.device(), "{}: c is {} on {}, a and b are {} on {}", what,
          name(c.dtype()), name(c.device()), name(a.dtype()), name(a.device()));
  require_own_elements(what, c);
}

/// The longest inner dimension that a device's kernel sums up on its own. Kernels add f32 products one after the other,
/// with an error that grows with their number: a sum of 10^7 equal products is off by 1 %. With bf16 the error of a
/// block stays below that of rounding the operands, and longer blocks keep the kernel's rounded copies whole.
std::int64_t longest_sum(DType dtype) {
  if (dtype != DType::f32) return std::int64_t{1} << 26;
  return std::int64_t{1} << (matmul_precision() == Precision::bf16 ? 17 : 13);
}

/// Computes c = alpha a b + beta c on c's device, for any inner dimension. Up to 32 blocks are computed apart and added
/// up in f32; the totals of more of them are added up in f64.
void multiply(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta) {
  constexpr std::int64_t most_blocks = 32;
  const std::int64_t k = a.size(-1), block = longest_sum(c.dtype()), chunk = most_blocks * block;
  const Kernels& device = kernels(c.device());
  if (k <= block) return void(device.gemm(a, b, c, {alpha, beta}));
  auto part_of = [&](const Tensor& x, int dim, std::int64_t begin, std::int64_t size) {
    return x.slice(dim, begin, std::min(begin + size, k));
  };
  Tensor part = Tensor::empty_like(c);
  if (k <= chunk) {
    device.gemm(part_of(a, -1, 0, block), part_of(b, -2, 0, block), c, {alpha, beta});
    for (std::int64_t p = block; p < k; p += block) {
      device.gemm(part_of(a, -1, p, block), part_of(b, -2, p, block), part, {alpha, 0});
      map_into(c, Add{}, c, part);
    }
    return;
  }
  Tensor total = beta == 0 ? Tensor::zeros(c.shape(), DType::f64, c.device()) : map(Affine{beta, 0}, c.to(DType::f64));
  for (std::int64_t p = 0; p < k; p += chunk) {
    multiply(part_of(a, -1, p, chunk), part_of(b, -2, p, chunk), part, alpha, 0);
    map_into(total, Add{}, total, part.to(DType::f64));
  }
  c.copy_from(total);
}

bool shares_memory(const Tensor& a, const Tensor& b) { return a.overlaps(b) || a.is_same_view(b); }

/// Computes c = a b and, in the same kernel, what the form adds. Returns false, and does nothing, if c's device has no
/// such kernel for these operands.
bool multiply_at_once(const Tensor& a, const Tensor& b, Tensor& c, const GemmForm& form) {
  const Clock::time_point begin = Clock::now();
  if (a.size(1) > longest_sum(c.dtype()) || !kernels(c.device()).gemm(a, b, c, form)) return false;
  count_product(a, c, begin);
  return true;
}

}  // namespace

void gemm(const Tensor& a, const Tensor& b, Tensor& c, double alpha, double beta) {
  check_operands("gemm", a, b);
  check_result("gemm", a, b, c);
  if (shares_memory(c, a) || shares_memory(c, b)) {
    Tensor result = beta == 0 ? Tensor::empty(c.shape(), c.dtype(), c.device()) : c.clone();
    gemm(a, b, result, alpha, beta);
    return c.copy_from(result);
  }
  const Clock::time_point begin = Clock::now();
  multiply(a, b, c, alpha, beta);
  count_product(a, c, begin);
}

Shape matmul_shape(const Tensor& a, const Tensor& b) {
  check_operands("matmul", a, b);
  return product_shape("matmul", a, b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor c = Tensor::empty(matmul_shape(a, b), a.dtype(), a.device());
  gemm(a, b, c);
  return c;
}

Tensor matmul_plus_bias(const Tensor& a, const Tensor& b, const Tensor& bias) {
  check_matrices("matmul_plus_bias", a, b);
  require(bias.defined() && bias.rank() == 1 && bias.size(0) == b.size(1),
          "matmul_plus_bias: the bias is {}, b is {}; the bias must be [{}]", bias, b, b.size(1));
  require(bias.dtype() == b.dtype() && bias.device() == b.device(),
          "matmul_plus_bias: the bias is {} on {}, b is {} on {}; they must be alike", bias, name(bias.device()), b,
          name(b.device()));
  Tensor c = Tensor::empty({a.size(0), b.size(1)}, a.dtype(), a.device());
  if (!multiply_at_once(a, b, c, {.bias = &bias})) {
    c.copy_from(bias);
    gemm(a, b, c, 1, 1);
  }
  return c;
}

Tensor gemm_with_column_sums(const Tensor& a, const Tensor& b, Tensor& c) {
  check_matrices("gemm_with_column_sums", a, b);
  check_result("gemm_with_column_sums", a, b, c);
  Tensor sums;
  if (!shares_memory(c, a) && !shares_memory(c, b) && multiply_at_once(a, b, c, {.column_sums = &sums})) return sums;
  sums = sum(b, {0});
  gemm(a, b, c);
  return sums;
}

void set_matmul_precision(Precision chosen) { precision = chosen; }
Precision matmul_precision() { return precision; }

GemmStatistics gemm_statistics() { return {calls, flops, static_cast<double>(nanoseconds) * 1e-9}; }

void reset_gemm_statistics() {
  calls = 0;
  flops = 0;
  nanoseconds = 0;
}

}  // namespace fovea
