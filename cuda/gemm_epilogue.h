/// Products with a bias, and products with column sums, in one kernel.
#pragma once
#include "tensor/kernels.h"

namespace fovea::cuda {

/// Computes c = a b, and the bias or the column sums of the form. Returns false, and does nothing, if cuBLASLt has no
/// algorithm for it.
bool gemm_with_epilogue(const Tensor& a, const Tensor& b, Tensor& c, const GemmForm& form);

}  // namespace fovea::cuda
