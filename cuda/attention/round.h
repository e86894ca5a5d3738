/// Rounding of the factors of products to bf16, before the kernels that multiply them.
#pragma once
#include <span>

#include "cuda/attention/call.h"

namespace fovea::cuda {

/// A tensor [B, h, X, columns] and where it goes, rounded to the nearest: `to` is [B, X, h, width] without gaps, 8 is a
/// divisor of width, and 0 fills up its rows.
struct RowsToRound {
  Operand<const float> from;
  std::uint16_t* to;  ///< the bits of numbers in bf16
  std::int32_t sentences, heads, rows, columns, width;
};
inline constexpr int most_rounded = 4;

/// Appends one kernel to the stream that rounds up to most_rounded tensors.
void round_rows(std::span<const RowsToRound> all);

}  // namespace fovea::cuda
