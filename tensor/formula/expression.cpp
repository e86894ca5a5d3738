#include "tensor/formula/expression.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace fovea {

namespace {

/// How an operation is written in C++. {0}, {1} and {2} stand for its operands.
struct Spelling {
  Operation operation;
  int operands;
  const char* text;
};

constexpr Spelling spellings[] = {
    {Operation::input, 0, "x[{0}]"},
    {Operation::constant, 0, "constant[{0}]"},
    {Operation::add, 2, "{0} + {1}"},
    {Operation::subtract, 2, "{0} - {1}"},
    {Operation::multiply, 2, "{0} * {1}"},
    {Operation::divide, 2, "{0} / {1}"},
    {Operation::negate, 1, "-{0}"},
    {Operation::less, 2, "{0} < {1}"},
    {Operation::less_equal, 2, "{0} <= {1}"},
    {Operation::equal, 2, "{0} == {1}"},
    {Operation::not_equal, 2, "{0} != {1}"},
    {Operation::logical_and, 2, "{0} & {1}"},
    {Operation::logical_or, 2, "{0} | {1}"},
    {Operation::logical_not, 1, "!{0}"},
    {Operation::select, 3, "select({0}, {1}, {2})"},
    {Operation::larger, 2, "larger_of({0}, {1})"},
    {Operation::smaller, 2, "smaller_of({0}, {1})"},
    {Operation::abs, 1, "abs({0})"},
    {Operation::exp, 1, "exp({0})"},
    {Operation::log, 1, "log({0})"},
    {Operation::log1p, 1, "log1p({0})"},
    {Operation::sqrt, 1, "sqrt({0})"},
    {Operation::floor, 1, "floor({0})"},
    {Operation::tanh, 1, "tanh({0})"},
    {Operation::sigmoid, 1, "sigmoid({0})"},
    {Operation::softplus, 1, "softplus({0})"},
    {Operation::erf, 1, "erf({0})"},
    {Operation::sin, 1, "sin({0})"},
    {Operation::cos, 1, "cos({0})"},
};

constexpr const Spelling& spelling_of(Operation operation) { return spellings[static_cast<std::size_t>(operation)]; }

static_assert(std::all_of(std::begin(spellings), std::end(spellings),
                          [](const Spelling& one) { return &spelling_of(one.operation) == &one; }),
              "the spellings have the order of the operations");

}  // namespace

bool gives_truth(Operation operation) { return Operation::less <= operation && operation <= Operation::logical_not; }

int operands_of(Operation operation) { return spelling_of(operation).operands; }

std::string source_of(const Expression& expression, std::string_view name) {
  std::string text = fmt::format(
      "template <class T>\nFOVEA_HD FOVEA_INLINE void {}("
      "[[maybe_unused]] const T* x, [[maybe_unused]] const T* constant, T* y) {{\n",
      name);
  for (std::size_t k = 0; k < expression.steps.size(); ++k) {
    const auto& step = expression.steps[k];
    const Spelling spelling = spelling_of(step.operation);
    auto operand = [&](std::size_t n) {
      return spelling.operands == 0 ? fmt::format("{}", step.operands[n]) : fmt::format("s{}", step.operands[n]);
    };
    text += fmt::format("  [[maybe_unused]] const {} s{} = ", gives_truth(step.operation) ? "auto" : "T", k);
    text += fmt::format(fmt::runtime(spelling.text), operand(0), operand(1), operand(2)) + ";\n";
  }
  for (std::size_t k = 0; k < expression.results.size(); ++k)
    text += fmt::format("  y[{}] = s{};\n", k, expression.results[k]);
  return text + "}\n";
}

}  // namespace fovea
