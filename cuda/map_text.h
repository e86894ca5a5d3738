/// The text of kernels for element-wise functions that are given as expressions.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/map_formula.h"

namespace fovea::cuda {

/// The name of the kernel in the text.
inline constexpr const char* map_text_kernel = "map_expression";

/// Returns the text of a kernel that computes the expression for all elements of f32 or f64 operands. It takes
/// MapOperands<T> (cuda/map_operands.h) and the expression's constants, an array of T with at least one element.
/// Expressions that differ in their constants only have the same text.
std::string map_text(const Expression& expression, DType dtype);

/// The kernel of one functor.
struct FunctorKernel {
  std::string text;               ///< map_text() of the functor's expression
  std::vector<double> constants;  ///< at least one, because the kernel takes at least one
};

/// Returns the kernel of a functor. The first call for a functor records its expression and writes the text; further
/// calls for a functor of the same type with the same bytes take them from a table. Members of the functor can be
/// constants of the expression, but they can also decide what its steps are, so all of them belong to the key.
std::shared_ptr<const FunctorKernel> functor_kernel(const MapFormula& formula, const void* functor, DType dtype);
/// How many expressions functor_kernel() has recorded since the program began.
std::uint64_t recorded_functors();

}  // namespace fovea::cuda
