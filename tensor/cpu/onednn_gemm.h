/// Matrix products through oneDNN, which selects its instructions at run time: it uses AVX-512 even where fovea was
/// compiled without it.
#pragma once
#include "tensor/cpu/tiled_gemm.h"
#include "tensor/tensor.h"

namespace fovea::onednn {

/// Whether sgemm() is faster than tiled_gemm() for this product: it is for large products on machines with AVX-512. On
/// AVX2 tiled_gemm() is as fast (4096 x 512 x 512: both reach 91 of 96 GFLOP/s a core), and faster for small products
/// and for a transposed a.
bool prefers_sgemm(const Product<float>& product);

/// Whether sgemm() accepts the strides of these matrices. In a and b one stride must be 1 and the other at least the
/// length of a whole row or column; in c the column stride must be 1.
bool takes(const Product<float>& product, const MatrixView<const float>& a, const MatrixView<const float>& b,
           const MatrixView<float>& c);
/// Computes c = alpha a b + beta c in f32. Throws Error if oneDNN reports a failure.
void sgemm(const Product<float>& product, MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

/// A factor of a product: the matrix, and the tensor in whose storage it lies.
struct Operand {
  MatrixView<const float> view;
  const Tensor& tensor;
};

/// Computes c = alpha a b + beta c with a and b rounded to bf16; sums are accumulated and stored in f32. a and b have
/// any strides, c's column stride is 1. Uses bf16 instructions where the machine has them, otherwise f32 instructions
/// on the rounded values. Caches one rounded copy per storage for later products, until the storage changes or is
/// freed.
void multiply_rounded(const Product<float>& product, const Operand& a, const Operand& b, MatrixView<float> c);
/// Whether the machine has instructions for bf16 products (AVX-512 BF16).
bool has_bf16();

}  // namespace fovea::onednn
