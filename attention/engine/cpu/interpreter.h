/// Computes formulas that are data without a compiler: one operation after the other, each on a block of vectors, so
/// that finding out which operation a step is costs little.
#pragma once
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tensor/cpu/row_loop.h"
#include "tensor/formula/expression.h"
#include "tensor/formula/math.h"

namespace fovea::cpu {

/// Calls body(f) with an operation as a function f(a, b, c) of vectors, of which it reads operands_of(operation). Truth
/// values are the numbers 0 and 1.
template <class V, class Body>
void with_function(Operation operation, const Body& body) {
  using T = typename ScalarOf<V>::type;
  constexpr auto number = [](LaneMask<T> truth) { return select(truth, V(T(1)), V(T(0))); };
  constexpr auto truth = [](V x) { return x != V(T(0)); };
  switch (operation) {
    case Operation::input:
    case Operation::constant:
      return;
    case Operation::add:
      return body([](V a, V b, V) { return a + b; });
    case Operation::subtract:
      return body([](V a, V b, V) { return a - b; });
    case Operation::multiply:
      return body([](V a, V b, V) { return a * b; });
    case Operation::divide:
      return body([](V a, V b, V) { return a / b; });
    case Operation::negate:
      return body([](V a, V, V) { return -a; });
    case Operation::less:
      return body([=](V a, V b, V) { return number(a < b); });
    case Operation::less_equal:
      return body([=](V a, V b, V) { return number(a <= b); });
    case Operation::equal:
      return body([=](V a, V b, V) { return number(a == b); });
    case Operation::not_equal:
      return body([=](V a, V b, V) { return number(a != b); });
    case Operation::logical_and:
      return body([=](V a, V b, V) { return number(truth(a) & truth(b)); });
    case Operation::logical_or:
      return body([=](V a, V b, V) { return number(truth(a) | truth(b)); });
    case Operation::logical_not:
      return body([=](V a, V, V) { return number(!truth(a)); });
    case Operation::select:
      return body([=](V a, V b, V c) { return select(truth(a), b, c); });
    case Operation::larger:
      return body([](V a, V b, V) { return larger_of(a, b); });
    case Operation::smaller:
      return body([](V a, V b, V) { return smaller_of(a, b); });
    case Operation::abs:
      return body([](V a, V, V) { return fovea::abs(a); });
    case Operation::exp:
      return body([](V a, V, V) { return fovea::exp(a); });
    case Operation::log:
      return body([](V a, V, V) { return fovea::log(a); });
    case Operation::log1p:
      return body([](V a, V, V) { return fovea::log1p(a); });
    case Operation::sqrt:
      return body([](V a, V, V) { return fovea::sqrt(a); });
    case Operation::floor:
      return body([](V a, V, V) { return fovea::floor(a); });
    case Operation::tanh:
      return body([](V a, V, V) { return fovea::tanh(a); });
    case Operation::sigmoid:
      return body([](V a, V, V) { return fovea::sigmoid(a); });
    case Operation::softplus:
      return body([](V a, V, V) { return fovea::softplus(a); });
    case Operation::erf:
      return body([](V a, V, V) { return fovea::erf(a); });
    case Operation::sin:
      return body([](V a, V, V) { return fovea::sin(a); });
    case Operation::cos:
      return body([](V a, V, V) { return fovea::cos(a); });
  }
}

/// An expression that is computed for the elements of a row. An input has either one number for each element or one
/// for the whole row; what depends on the latter only is computed once for the row.
class Interpreter {
 public:
  /// varies[k]: whether input k has a number for each element.
  Interpreter(Expression expression, const std::vector<bool>& varies)
      : expression_(std::move(expression)), varies_(expression_.steps.size(), false) {
    for (std::size_t k = 0; k < varies_.size(); ++k) {
      const auto& [operation, operands] = expression_.steps[k];
      if (operation == Operation::input) varies_[k] = varies[static_cast<std::size_t>(operands[0])];
      for (int n = 0; n < operands_of(operation); ++n)
        if (varies_[static_cast<std::size_t>(operands[static_cast<std::size_t>(n)])]) varies_[k] = true;
    }
  }
  const Expression& expression() const { return expression_; }

  /// Computes the n elements of a row in blocks. read(input, j, count, to) writes the numbers of an input for `count`
  /// elements from j on to the vectors at `to`, or the row's number to the first vector. write(j, count, result) stores
  /// `count` elements from j on; result(r) is the address of the first vector of result r. All elements of a block are
  /// read before one is written.
  template <class T, class Read, class Write>
  void for_row(std::int64_t n, const Read& read, const Write& write) const {
    constexpr std::int64_t lanes = Vec<T>::lanes, in_block = vectors * lanes;
    Vec<T>* const memory = memory_of_steps<T>();
    auto of_step = [&](std::size_t k) { return memory + static_cast<std::int64_t>(k) * vectors; };
    auto compute_steps = [&](bool varying, std::int64_t j, std::int64_t count) {
      for (std::size_t k = 0; k < varies_.size(); ++k) {
        if (varies_[k] != varying) continue;
        const auto& [operation, operands] = expression_.steps[k];
        if (operation == Operation::input)
          read(operands[0], j, count, of_step(k));
        else if (operation == Operation::constant)
          *of_step(k) = Vec<T>(static_cast<T>(expression_.constants[static_cast<std::size_t>(operands[0])]));
        else
          compute(k, memory, (count + lanes - 1) / lanes);
        if (!varying) std::fill_n(of_step(k) + 1, vectors - 1, *of_step(k));
      }
    };
    compute_steps(false, 0, 1);
    for (std::int64_t j = 0; j < n; j += in_block) {
      const std::int64_t count = std::min(n - j, in_block);
      compute_steps(true, j, count);
      write(j, count, [&](std::size_t result) {
        return static_cast<const Vec<T>*>(of_step(static_cast<std::size_t>(expression_.results[result])));
      });
    }
  }

 private:
  static constexpr std::int64_t vectors = 16;  ///< of a block: the blocks of all steps should fit the nearest cache

  /// Room for a block of each step. One array for each thread, because a call for a strip would spend much of its time
  /// on a new one.
  template <class T>
  Vec<T>* memory_of_steps() const {
    thread_local std::vector<Vec<T>> memory;
    memory.resize(std::max(memory.size(), varies_.size() * static_cast<std::size_t>(vectors)));
    return memory.data();
  }

  template <class T>
  void compute(std::size_t k, Vec<T>* memory, std::int64_t count) const {
    const auto& [operation, operands] = expression_.steps[k];
    Vec<T>* const to = memory + static_cast<std::int64_t>(k) * vectors;
    const Vec<T>*const a = memory + operands[0] * vectors, *const b = memory + operands[1] * vectors,
                       *const c = memory + operands[2] * vectors;
    with_function<Vec<T>>(operation, [=](auto function) {
      for (std::int64_t v = 0; v < count; ++v) to[v] = function(a[v], b[v], c[v]);
    });
  }

  Expression expression_;
  std::vector<bool> varies_;  ///< of each step
};

}  // namespace fovea::cpu
