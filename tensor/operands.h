/// Checks of the operands of an operation: types, devices, and shapes that follow patterns.
#pragma once
#include <initializer_list>

#include "tensor/tensor.h"

namespace fovea {

/// An operand and the pattern that it must follow, such as {"the gain", gain, "n"}. A pattern has an element type and
/// the names of the dimensions:
///   type        f64, bool; index: i32 or i64; mask: bool or u8; any: any type. Without one, the operand has the type
///               of the first operand, which is f32 or f64.
///   dimensions  a letter stands for one size in all patterns of a check, and 4n for four times n. "..." stands for any
///               leading dimensions, the same in all patterns; "*" for any, which may differ.
/// A pattern that begins with ? allows an undefined tensor.
struct Operand {
  const char* role;  ///< what messages call it
  const Tensor& tensor;
  const char* pattern;
};

/// Throws Error, which begins with `what`, for the first operand that does not follow its pattern, or is on another
/// device than the first operand.
void check(const char* what, std::initializer_list<Operand> operands);

}  // namespace fovea
