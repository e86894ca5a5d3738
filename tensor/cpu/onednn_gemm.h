/// Matrix products through oneDNN: where it knows instructions that a build of ours may not (AVX-512).
#pragma once
#include "tensor/cpu/tiled_gemm.h"
#include "tensor/tensor.h"

namespace fovea::onednn {

/// Whether sgemm is worth its overhead here: large products on machines with AVX-512. On AVX2 the tiled product is as
/// fast (4096 x 512 x 512: 91 of 96 GFLOP/s a core, both), and faster for small ones and transposed a.
bool prefers_sgemm(const Product<float>& product);

/// Whether sgemm can multiply these matrices: of each, one stride must be 1 and the other at least a whole row or
/// column.
bool takes(const Product<float>& product, const MatrixView<const float>& a, const MatrixView<const float>& b,
           const MatrixView<float>& c);
void sgemm(const Product<float>& product, MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

/// A matrix in a tensor's storage.
struct Operand {
  MatrixView<const float> view;
  const Tensor& tensor;
};

/// The product of a and b rounded to bf16, accumulated and stored in f32; c's column stride is 1, a and b have any. In
/// bf16 instructions where the machine has them, otherwise in f32 on the rounded values. One
/// rounded copy per storage is kept for later products, as long as the storage lives and has not changed.
void multiply_rounded(const Product<float>& product, const Operand& a, const Operand& b, MatrixView<float> c);
bool has_bf16();

}  // namespace fovea::onednn
