/// Every pointwise formula of the registry's methods, and one with all operations.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "attention/layers/multi_head.h"
#include "tests/attention/attentions.h"

namespace fovea::test {

/// Every operation of an expression, with values that two terms share, and ties where x is 0.
struct EveryOperation {
  static constexpr const char* name = "every_operation";
  auto operator()(auto z, auto, auto x) const {
    using T = decltype(z);
    const T shared = tanh(z * x) + T(2), root = sqrt(abs(x) + T(1));
    const T smooth = sigmoid(shared / root) - softplus(-z) + erf(x) * log1p(z * z) - sin(x) * cos(z) + exp(-(x * x));
    const auto less = x < z, at_most = z <= T(-1), equal = x == z, not_a_number = x != x;
    return smooth * log(shared) + larger_of(x, z) * smaller_of(x, T(0)) +
           select((less & !at_most) | equal | not_a_number, shared * floor(x), z) / shared;
  }
};

/// The formulas of all methods with every change of a choice or flag. The keys are a formula's name and the values of
/// its constants. With them EveryOperation, for what no method needs and a formula of one's own may.
inline std::map<std::string, PointwiseFormula> all_formulas() {
  constexpr std::int64_t B = 2, J = 5, d = 6;
  std::map<std::string, PointwiseFormula> formulas{
      {EveryOperation::name, pointwise_formula<EveryOperation, Per::key>(EveryOperation{})}};
  Generator generator(7);
  for (const std::string& specification : all_specifications())
    for (Place place : all_places()) {
      std::unique_ptr<Attention> attention;
      try {
        attention = random_attention(specification, place);
      } catch (const Error&) {
        continue;  // not defined at this place
      }
      auto* multi_head = dynamic_cast<MultiHeadAttention*>(attention.get());
      if (!multi_head) continue;
      const Variable states = random_tensor({B, J, d}, generator);
      const MultiHeadAttention::Call call = multi_head->call({.query = states,
                                                              .key = states,
                                                              .value = states,
                                                              .mask = test_mask(J, J),
                                                              .causal = place == Place::decoder});
      for (const auto* terms : {&call.plan.score_changes, &call.plan.biases, &call.plan.windows})
        for (const PairTerm& term : *terms)
          if (const auto* formula = std::get_if<PointwiseFormula>(&term.what)) {
            std::string key = formula->name();
            for (double constant : formula->value().constants) key += fmt::format(" {}", constant);
            formulas.emplace(key, *formula);
          }
    }
  return formulas;
}

/// Whether a and b are both NaN, the same infinity, or close to each other. They may differ slightly, because compilers
/// round a * b + c once or twice.
template <class T>
bool alike(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 200 * std::numeric_limits<T>::epsilon() * std::max({T(10), std::abs(a), std::abs(b)});
}

}  // namespace fovea::test
