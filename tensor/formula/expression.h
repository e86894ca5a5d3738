/// A formula as data: the list of its operations, from which the text of a program in C++ or CUDA can be made.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// What one step of an expression computes. Comparisons and logical operations give truth values; `select` takes a
/// truth value and two numbers; `larger` and `smaller` give one of two numbers.
enum class Operation : std::uint8_t {
  input,
  constant,
  add,
  subtract,
  multiply,
  divide,
  negate,
  less,
  less_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  logical_not,
  select,
  larger,
  smaller,
  abs,
  exp,
  log,
  log1p,
  sqrt,
  floor,
  tanh,
  sigmoid,
  softplus,
  erf,
  sin,
  cos,
};

/// The number of operands of an operation: 0 for inputs and constants, up to 3.
int operands_of(Operation operation);
/// Whether the result of an operation is a truth value.
bool gives_truth(Operation operation);

/// A function of several numbers with several results, as a list of steps. The operands of a step are earlier steps.
struct Expression {
  struct Step {
    Operation operation;
    /// Numbers of the steps that this one reads. An input has its own number among the inputs as the first operand, a
    /// constant its number among `constants`.
    std::array<int, 3> operands;
    bool operator==(const Step&) const = default;
  };

  int inputs = 0;
  std::vector<double> constants;
  std::vector<Step> steps;
  std::vector<int> results;  ///< numbers of steps
};

/// Returns the text of a C++ function template that computes the expression for any number type T:
///
///   template <class T>
///   FOVEA_HD void name(const T* x, const T* constant, T* y)
///
/// x are the inputs, y the results. The constants are arguments and not part of the text, so that formulas that differ
/// in their options only are compiled once. The text calls the functions of tensor/formula/math.h and number.h.
std::string source_of(const Expression& expression, std::string_view name);

}  // namespace fovea
