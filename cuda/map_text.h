/// The text of kernels for element-wise functions that are given as expressions.
#pragma once
#include <string>

#include "tensor/dtype.h"
#include "tensor/formula/expression.h"

namespace fovea::cuda {

/// The name of the kernel in the text.
inline constexpr const char* map_text_kernel = "map_expression";

/// Returns the text of a kernel that computes the expression for all elements of f32 or f64 operands. It takes
/// MapOperands<T> (cuda/map_operands.h) and the expression's constants, an array of T with at least one element.
/// Expressions that differ in their constants only have the same text.
std::string map_text(const Expression& expression, DType dtype);

}  // namespace fovea::cuda
