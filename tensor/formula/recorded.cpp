#include "tensor/formula/recorded.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tensor/error.h"

namespace fovea {

namespace {
thread_local Recorder* recorder_of_thread = nullptr;
}  // namespace

Recorder::Recorder(int inputs) : before_(std::exchange(recorder_of_thread, this)) { recorded_.inputs = inputs; }
Recorder::~Recorder() { recorder_of_thread = before_; }

Recorder& Recorder::current() {
  require(recorder_of_thread, "map: a formula reads a constant that was made while another formula was recorded");
  return *recorder_of_thread;
}

int Recorder::step(Operation operation, std::array<int, 3> operands) {
  const Expression::Step wanted{operation, operands};
  auto found = std::find(recorded_.steps.begin(), recorded_.steps.end(), wanted);
  if (found == recorded_.steps.end()) found = recorded_.steps.insert(found, wanted);
  return static_cast<int>(found - recorded_.steps.begin());
}

int Recorder::constant(double value) {
  auto same = [=](double known) { return std::bit_cast<std::uint64_t>(known) == std::bit_cast<std::uint64_t>(value); };
  auto found = std::find_if(recorded_.constants.begin(), recorded_.constants.end(), same);
  if (found == recorded_.constants.end()) found = recorded_.constants.insert(found, value);
  return step(Operation::constant, {static_cast<int>(found - recorded_.constants.begin()), 0, 0});
}

bool Recorder::is_constant(int step, double value) const {
  const auto& [operation, operands] = recorded_.steps[static_cast<std::size_t>(step)];
  return operation == Operation::constant && recorded_.constants[static_cast<std::size_t>(operands[0])] == value;
}

Expression Recorder::expression(std::span<const int> results) const {
  std::vector<bool> needed(recorded_.steps.size(), false);
  for (int result : results) needed[static_cast<std::size_t>(result)] = true;
  for (std::size_t k = recorded_.steps.size(); k-- > 0;) {
    const auto& [operation, operands] = recorded_.steps[k];
    for (int n = 0; needed[k] && n < operands_of(operation); ++n) needed[static_cast<std::size_t>(operands[n])] = true;
  }
  Expression out{recorded_.inputs, {}, {}, {}};
  std::vector<int> number(recorded_.steps.size());  // of each step in `out`
  for (std::size_t k = 0; k < recorded_.steps.size(); ++k) {
    if (!needed[k]) continue;
    Expression::Step step = recorded_.steps[k];
    for (int n = 0; n < operands_of(step.operation); ++n)
      step.operands[n] = number[static_cast<std::size_t>(step.operands[n])];
    if (step.operation == Operation::constant) {
      out.constants.push_back(recorded_.constants[static_cast<std::size_t>(step.operands[0])]);
      step.operands[0] = static_cast<int>(out.constants.size()) - 1;
    }
    number[k] = static_cast<int>(out.steps.size());
    out.steps.push_back(step);
  }
  for (int result : results) out.results.push_back(number[static_cast<std::size_t>(result)]);
  return out;
}

std::vector<int> record_again(const Expression& expression, std::span<const Recorded> x) {
  std::vector<int> number;
  for (const Expression::Step& step : expression.steps) {
    std::array<int, 3> operands = step.operands;
    for (int n = 0; n < operands_of(step.operation); ++n) {
      int& operand = operands[static_cast<std::size_t>(n)];
      operand = number[static_cast<std::size_t>(operand)];
    }
    const auto first = static_cast<std::size_t>(step.operands[0]);
    number.push_back(step.operation == Operation::input      ? x[first].step()
                     : step.operation == Operation::constant ? Recorder::current().constant(expression.constants[first])
                                                             : Recorder::current().step(step.operation, operands));
  }
  return number;
}

}  // namespace fovea
