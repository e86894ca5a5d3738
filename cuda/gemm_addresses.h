/// The addresses of the matrices of a batch that no single stride describes, as cuBLAS takes them.
#pragma once
#include <array>

#include "tensor/element_loop.h"
#include "tensor/tensor.h"

namespace fovea::cuda {

/// Returns where the matrices lie, i64 [3, loop.elements] on the GPU: the first number of row k is the address of
/// operand k's matrix number 0 of the loop. `first` has the operands' first addresses; strides count elements of
/// `bytes` bytes.
Tensor gemm_addresses(const ElementLoop<3>& loop, const std::array<const void*, 3>& first, std::int64_t bytes);

}  // namespace fovea::cuda
