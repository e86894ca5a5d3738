#include "attention/formula/reverse.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tensor/formula/recorded.h"

namespace fovea {

namespace {

/// Whether each step depends on one of these inputs by operations that have a derivative.
std::vector<bool> depends_on(const Expression& value, std::span<const int> inputs) {
  std::vector<bool> depends(value.steps.size(), false);
  for (std::size_t k = 0; k < value.steps.size(); ++k) {
    const auto& [operation, operands] = value.steps[k];
    if (operation == Operation::input)
      depends[k] = std::find(inputs.begin(), inputs.end(), operands[0]) != inputs.end();
    else if (operation != Operation::floor && !gives_truth(operation))
      for (int n = 0; n < operands_of(operation); ++n)
        depends[k] = depends[k] || depends[static_cast<std::size_t>(operands[static_cast<std::size_t>(n)])];
  }
  return depends;
}

/// One walk from the result to the inputs. The steps of `value` are recorded again first, under numbers of their own.
class ReversePass {
 public:
  ReversePass(const Expression& value, std::span<const Recorded> x, std::span<const int> of)
      : value_(value),
        needed_(depends_on(value, of)),
        recorded_(record_again(value, x)),
        cotangents_(value.steps.size()) {}

  std::vector<Recorded> run(Recorded gradient, std::span<const int> of) {
    cotangents_[static_cast<std::size_t>(value_.results[0])] = {gradient, false};
    for (std::size_t k = value_.steps.size(); k-- > 0;)
      if (cotangents_[k]) pass_on(k, *cotangents_[k]);
    std::vector<Recorded> gradients(of.size(), Recorded(0));
    for (std::size_t k = 0; k < value_.steps.size(); ++k)
      for (std::size_t n = 0; n < of.size(); ++n)
        if (value_.steps[k].operation == Operation::input && value_.steps[k].operands[0] == of[n] && cotangents_[k])
          gradients[n] = select(gradient == Recorded(0), Recorded(0), cotangents_[k]->number);
    return gradients;
  }

 private:
  /// The gradient of a step. Behind a select it may be 0 where the step is infinite or NaN; products must then be 0.
  struct Cotangent {
    Recorded number;
    bool behind_select;
  };

  static Recorded times(Cotangent c, Recorded slope) {
    const Recorded product = c.number * slope;
    return c.behind_select ? select(c.number == Recorded(0), Recorded(0), product) : product;
  }
  static Recorded over(Cotangent c, Recorded divisor) {
    const Recorded quotient = c.number / divisor;
    return c.behind_select ? select(c.number == Recorded(0), Recorded(0), quotient) : quotient;
  }

  /// Adds the gradients of step k's operands, from that of its result.
  void pass_on(std::size_t k, Cotangent c) {
    const auto& [operation, operands] = value_.steps[k];
    auto operand = [&, numbers = operands](std::size_t n) {
      return Recorded::of_step(recorded_[static_cast<std::size_t>(numbers[n])]);
    };
    auto add = [&, numbers = operands](std::size_t n, Recorded more, bool behind_select = false) {
      const auto to = static_cast<std::size_t>(numbers[n]);
      if (!needed_[to]) return;
      std::optional<Cotangent>& sum = cotangents_[to];
      behind_select = behind_select || c.behind_select;
      sum = sum ? Cotangent{sum->number + more, sum->behind_select || behind_select} : Cotangent{more, behind_select};
    };
    const Recorded result = Recorded::of_step(recorded_[k]), zero(0), one(1);
    switch (operation) {
      case Operation::add:
        add(0, c.number), add(1, c.number);
        break;
      case Operation::subtract:
        add(0, c.number), add(1, -c.number);
        break;
      case Operation::multiply:
        add(0, times(c, operand(1))), add(1, times(c, operand(0)));
        break;
      case Operation::divide: {
        const Recorded of_numerator = over(c, operand(1));
        add(0, of_numerator), add(1, -times({of_numerator, c.behind_select}, result));
        break;
      }
      case Operation::negate:
        add(0, -c.number);
        break;
      case Operation::select: {
        const RecordedTruth condition{recorded_[static_cast<std::size_t>(operands[0])]};
        add(1, select(condition, c.number, zero), true), add(2, select(condition, zero, c.number), true);
        break;
      }
      case Operation::larger:
      case Operation::smaller: {  // where both are equal, each has half of the gradient
        const Recorded a = operand(0), b = operand(1), half = Recorded(0.5) * c.number;
        const RecordedTruth is_second = operation == Operation::larger ? a < b : b < a;
        add(0, select(a == b, half, select(is_second, zero, c.number)), true);
        add(1, select(a == b, half, select(is_second, c.number, zero)), true);
        break;
      }
      case Operation::abs: {
        const Recorded x = operand(0);
        add(0, select(x == zero, zero, select(x < zero, -c.number, c.number)), true);
        break;
      }
      case Operation::exp:
        add(0, times(c, result));
        break;
      case Operation::log:
        add(0, over(c, operand(0)));
        break;
      case Operation::log1p:
        add(0, over(c, one + operand(0)));
        break;
      case Operation::sqrt:
        add(0, over(c, Recorded(2) * result));
        break;
      case Operation::tanh:
        add(0, times(c, one - result * result));
        break;
      case Operation::sigmoid:
        add(0, times(c, result * (one - result)));
        break;
      case Operation::softplus:
        add(0, times(c, sigmoid(operand(0))));
        break;
      case Operation::erf:
        add(0, times(c, Recorded(1.1283791670955126) * exp(-(operand(0) * operand(0)))));  // 2 / sqrt(pi)
        break;
      case Operation::sin:
        add(0, times(c, cos(operand(0))));
        break;
      case Operation::cos:
        add(0, -times(c, sin(operand(0))));
        break;
      default:
        break;  // inputs and constants have no operands; floor and truth values have no derivative
    }
  }

  const Expression& value_;
  std::vector<bool> needed_;
  std::vector<int> recorded_;  ///< the number of each step in the new expression
  std::vector<std::optional<Cotangent>> cotangents_;
};

}  // namespace

Expression gradients_of(const Expression& value, std::span<const int> of) {
  return record_expression(1 + value.inputs, [&](std::span<const Recorded> x) {
    return ReversePass(value, x.subspan(1), of).run(x[0], of);
  });
}

}  // namespace fovea
