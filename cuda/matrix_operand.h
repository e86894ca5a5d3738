/// Matrices as cuBLAS takes them.
#pragma once
#include <algorithm>
#include <limits>

#include <cublas_v2.h>

#include "cuda/stream.h"
#include "tensor/gemm.h"
#include "tensor/tensor.h"

namespace fovea::cuda {

inline void check_blas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuda: {}: {}", what, cublasGetStatusString(status));
}

/// A factor of a product as cuBLAS takes it. cuBLAS stores matrices by columns, so it sees a row-major matrix as its
/// transpose: a row-major factor has the operation CUBLAS_OP_N, a column-major factor CUBLAS_OP_T. `leading` is the
/// distance between the rows of the former or the columns of the latter.
struct Operand {
  Tensor tensor;
  cublasOperation_t operation;
  int leading;
};

/// Whether the elements of dimension `unit` of x, one of its last two, are neighbours in memory, and dimension
/// `leading` is the other one.
inline bool fits(const Tensor& x, int unit, int leading) {
  return (x.strides()[unit] == 1 || x.size(unit) == 1) &&
         (x.strides()[leading] >= std::max<std::int64_t>(1, x.size(unit)) || x.size(leading) == 1);
}

/// A size or distance as cuBLAS takes it. Throws Error if it is too large.
inline int blas_size(std::int64_t n) {
  constexpr int most = std::numeric_limits<int>::max();
  require(n <= most,
          "gemm: a matrix has a dimension, or a distance of its rows or columns, of {}; cuBLAS takes at most {}", n,
          most);
  return static_cast<int>(n);
}

/// The distance of the columns or rows along dimension `leading`; any that cuBLAS accepts if there is only one.
inline int leading_of(const Tensor& x, int unit, int leading) {
  return blas_size(std::max({x.size(leading) > 1 ? x.strides()[leading] : 0, x.size(unit), std::int64_t{1}}));
}

/// The type in which products of f32 are computed. With --precision bf16 their operands are rounded.
inline cublasComputeType_t compute_type_of_f32() {
  return matmul_precision() == Precision::bf16 ? CUBLAS_COMPUTE_32F_FAST_16BF : CUBLAS_COMPUTE_32F;
}

/// Returns the last two dimensions of x as a factor, of a packed copy of x if neither of them is contiguous.
inline Operand operand(const Tensor& x) {
  if (fits(x, -1, -2)) return {x, CUBLAS_OP_N, leading_of(x, -1, -2)};
  if (fits(x, -2, -1)) return {x, CUBLAS_OP_T, leading_of(x, -2, -1)};
  Tensor packed = x.clone();
  return {packed, CUBLAS_OP_N, leading_of(packed, -1, -2)};
}

}  // namespace fovea::cuda
