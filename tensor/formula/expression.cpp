#include "tensor/formula/expression.h"

#include <fmt/format.h>

namespace fovea {

namespace {

/// How an operation is written in C++. {0}, {1} and {2} stand for its operands.
struct Spelling {
  int operands;
  const char* text;
};

Spelling spelling_of(Operation operation) {
  switch (operation) {
    case Operation::input:
      return {0, "x[{0}]"};
    case Operation::constant:
      return {0, "constant[{0}]"};
    case Operation::add:
      return {2, "{0} + {1}"};
    case Operation::subtract:
      return {2, "{0} - {1}"};
    case Operation::multiply:
      return {2, "{0} * {1}"};
    case Operation::divide:
      return {2, "{0} / {1}"};
    case Operation::negate:
      return {1, "-{0}"};
    case Operation::less:
      return {2, "{0} < {1}"};
    case Operation::less_equal:
      return {2, "{0} <= {1}"};
    case Operation::equal:
      return {2, "{0} == {1}"};
    case Operation::not_equal:
      return {2, "{0} != {1}"};
    case Operation::logical_and:
      return {2, "{0} && {1}"};
    case Operation::logical_or:
      return {2, "{0} || {1}"};
    case Operation::logical_not:
      return {1, "!{0}"};
    case Operation::select:
      return {3, "{0} ? {1} : {2}"};
    case Operation::larger:
      return {2, "larger_of({0}, {1})"};
    case Operation::smaller:
      return {2, "smaller_of({0}, {1})"};
    case Operation::abs:
      return {1, "abs({0})"};
    case Operation::exp:
      return {1, "exp({0})"};
    case Operation::log:
      return {1, "log({0})"};
    case Operation::log1p:
      return {1, "log1p({0})"};
    case Operation::sqrt:
      return {1, "sqrt({0})"};
    case Operation::floor:
      return {1, "floor({0})"};
    case Operation::tanh:
      return {1, "tanh({0})"};
    case Operation::sigmoid:
      return {1, "sigmoid({0})"};
    case Operation::softplus:
      return {1, "softplus({0})"};
    case Operation::erf:
      return {1, "erf({0})"};
    case Operation::sin:
      return {1, "sin({0})"};
    case Operation::cos:
      return {1, "cos({0})"};
  }
  return {0, ""};
}

}  // namespace

bool gives_truth(Operation operation) { return Operation::less <= operation && operation <= Operation::logical_not; }

int operands_of(Operation operation) { return spelling_of(operation).operands; }

std::string source_of(const Expression& expression, std::string_view name) {
  std::string text = fmt::format(
      "template <class T>\nFOVEA_HD void {}([[maybe_unused]] const T* x, [[maybe_unused]] const T* constant, T* y) "
      "{{\n",
      name);
  for (std::size_t k = 0; k < expression.steps.size(); ++k) {
    const auto& step = expression.steps[k];
    const Spelling spelling = spelling_of(step.operation);
    auto operand = [&](std::size_t n) {
      return spelling.operands == 0 ? fmt::format("{}", step.operands[n]) : fmt::format("s{}", step.operands[n]);
    };
    text += fmt::format("  [[maybe_unused]] const {} s{} = ", gives_truth(step.operation) ? "bool" : "T", k);
    text += fmt::format(fmt::runtime(spelling.text), operand(0), operand(1), operand(2)) + ";\n";
  }
  for (std::size_t k = 0; k < expression.results.size(); ++k)
    text += fmt::format("  y[{}] = s{};\n", k, expression.results[k]);
  return text + "}\n";
}

}  // namespace fovea
