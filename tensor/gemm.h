/// Matrix products of tensors, with batch dimensions that broadcast. A transposed operand is passed as a view.
#pragma once
#include <cstdint>

#include "tensor/tensor.h"

namespace fovea {

/// c = alpha a b + beta c, where a is [..., m, k], b is [..., k, n] and c is [..., m, n], all f32 or all f64. The batch
/// dimensions of a and b broadcast to those of c. a and b may have any strides and are not copied for that, so a
/// transpose is free. c may be any view without repeated elements; if it overlaps a or b, the product is computed in a
/// temporary tensor. c is not read if beta = 0. If k = 0, c becomes beta c. Long inner dimensions are summed in blocks:
/// for any k, the error is at most about 1e-5 of Σ |a b| in f32.
///
/// The result has the same bits for any number of threads, except for large f32 products on machines with AVX-512.
void gemm(const Tensor& a, const Tensor& b, Tensor& c, double alpha = 1, double beta = 0);

/// Returns the shape of the product a b, [..., m, n]. Throws Error where shapes, types or devices do not fit.
Shape matmul_shape(const Tensor& a, const Tensor& b);

/// Returns the product a b in a new tensor. Throws Error where shapes, types or devices do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);

/// Returns a b + bias, [m, n], where a is [m, k], b is [k, n] and bias is [n], all f32 or all f64. A GPU computes it in
/// one kernel, in f32. Throws Error where shapes, types or devices do not fit.
Tensor matmul_plus_bias(const Tensor& a, const Tensor& b, const Tensor& bias);

/// Computes c = a b as gemm() does, and returns the sums of b's columns, [n], where a is [m, k] and b is [k, n]. These
/// are the gradients of a linear layer's weight and bias if a is the layer's input, transposed, and b the gradient of
/// its output. A GPU computes both in one kernel, in f32; with Precision::bf16 it may round b before it sums.
Tensor gemm_with_column_sums(const Tensor& a, const Tensor& b, Tensor& c);

/// How products of f32 tensors are computed. With bf16, both operands are rounded to bf16 and the products are
/// accumulated in f32. On a GPU, cuBLAS may do so for any product. On the CPU it applies to single matrices with m, n
/// and k of at least 16, to batches that can be computed as one matrix (activations [B, T, d] times a weight [d, n]),
/// and to fused attention with many queries and keys. Batches of small matrices are still computed in f32, because
/// rounding them costs more time than it saves.
enum class Precision : std::uint8_t { f32, bf16 };
void set_matmul_precision(Precision precision);
Precision matmul_precision();

/// Statistics of all calls of gemm, from any thread, since reset_gemm_statistics() or the start of the program.
struct GemmStatistics {
  std::uint64_t calls = 0;
  double flops = 0;    ///< 2 m n k for each product
  double seconds = 0;  ///< spent inside gemm, summed over the calling threads
};
GemmStatistics gemm_statistics();
void reset_gemm_statistics();

}  // namespace fovea
