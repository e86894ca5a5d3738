/// Matrix products of tensors: batched, broadcast, with transposes as views.
#pragma once
#include <cstdint>

#include "tensor/tensor.h"

namespace fovea {

/// c = alpha a b + beta c; a [..., m, k], b [..., k, n], c [..., m, n], all f32 or all f64. The batch dimensions of a
/// and b broadcast to c's. Operands are read where they lie whatever their strides (a transpose is a view); c may be
/// any view without repeated elements, and overlap a or b (through a copy). beta = 0 does not read c; k = 0 leaves beta
/// c.
///
/// f64, and f32 except for large products on machines with AVX-512, gives the same bits for any number of threads.
void gemm(const Tensor& a, const Tensor& b, Tensor& c, double alpha = 1, double beta = 0);

/// The shape of a b: [..., m, n]. Throws Error where shapes, types or devices do not fit.
Shape matmul_shape(const Tensor& a, const Tensor& b);

/// a b, newly allocated. Throws Error where shapes, types or devices do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);

/// How f32 products are computed. bf16 rounds both operands to bf16 and accumulates in f32: products of matrices, and
/// batches that fold into one (activations [B, T, d] times a weight [d, n]), with no size below 16; and those inside
/// fused attention of many queries and keys. Batches of small matrices stay in f32: rounding them costs more than it
/// saves.
enum class Precision : std::uint8_t { f32, bf16 };
void set_matmul_precision(Precision precision);
Precision matmul_precision();

/// Work since reset_gemm_statistics(), of all threads that called gemm.
struct GemmStatistics {
  std::uint64_t calls = 0;
  double flops = 0;    ///< 2 m n k for each product
  double seconds = 0;  ///< of the callers' time
};
GemmStatistics gemm_statistics();
void reset_gemm_statistics();

}  // namespace fovea
