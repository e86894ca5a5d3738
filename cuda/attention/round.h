/// Rounding of the factors of products to bf16, before the kernels that multiply them.
#pragma once
#include <span>

#include "cuda/attention/call.h"

namespace fovea::cuda {

/// A tensor [B, h, X, columns] and where it goes, rounded to the nearest: `to` is contiguous [B, X, h, width]. The
/// width is a multiple of 8; the columns that the tensor does not have are 0.
struct RowsToRound {
  Operand<const float> from;
  std::uint16_t* to;  ///< the bits of numbers in bf16
  std::int32_t sentences, heads, rows, columns, width;
};
inline constexpr int most_rounded = 4;

/// Appends one kernel to the stream that rounds up to most_rounded tensors.
void round_rows(std::span<const RowsToRound> all);

}  // namespace fovea::cuda
