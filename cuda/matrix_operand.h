/// Matrices as cuBLAS takes them.
#pragma once
#include <algorithm>

#include <cublas_v2.h>

#include "cuda/stream.h"
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

inline int leading_of(const Tensor& x, int unit, int leading) {
  return static_cast<int>(std::max({x.strides()[leading], x.size(unit), std::int64_t{1}}));
}

/// Returns the last two dimensions of x as a factor, of a packed copy of x if neither of them is contiguous.
inline Operand operand(const Tensor& x) {
  if (fits(x, -1, -2)) return {x, CUBLAS_OP_N, leading_of(x, -1, -2)};
  if (fits(x, -2, -1)) return {x, CUBLAS_OP_T, leading_of(x, -2, -1)};
  Tensor packed = x.clone();
  return {packed, CUBLAS_OP_N, leading_of(packed, -1, -2)};
}

}  // namespace fovea::cuda
