// Exercise 7: a new attention formula.                             Before it: attention/README.md, "Adding a method".
//
// A method changes the logits of attention by a formula of one query and one key. This one makes keys that are far away
// less likely, by a power of the distance (Chi et al. 2022, "KERPLE: Kernelized Relative Positional Embedding for
// Length Extrapolation", the logarithmic kernel):
//
//   z_ij = s_ij - r_h log(1 + c_h |j - i|)           r_h, c_h > 0: two parameters of head h
//
// s_ij is the logit q_i . k_j / sqrt(D) and i and j are positions in tokens. The formula is a functor for any type of
// number: the library calls it with numbers, with vectors and with dual numbers, so that it is also its own derivative.
// It may use + - * /, abs(), exp(), log() and others; at.query and at.key are i and j; write T(1) for the number 1.
//
// Write: the functor's result.
//
// The check computes attention over five tokens with your formula, with the composed and with the fused engine, and
// compares with plain loops.
#include "attention/engine/attend.h"
#include "attention/registry.h"
#include "check.h"

using namespace fovea;
using namespace fovea::exercises;

struct PowerOfDistance {
  static constexpr const char* name = "power_of_distance";
  // ---- your code begins
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T> at, T rate, T scale) const {
    (void)at, (void)rate, (void)scale;
    return z;  // plain attention
  }
  // ---- your code ends
};

/// The method: its parameters, and the term that it adds to the plan of an attention.
class Kerple : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"kerple", "keys lose weight by a power of their distance", "Chi et al. 2022",
                                      "z_ij = s_ij - r_h log(1 + c_h |j - i|)"};
  static void visit(OptionVisitor&, Options&) {}
  Kerple(const MethodShape& shape, const Options&)
      : rate_(parameter("rate", {shape.heads}, Initializer::constant(1.5))),
        scale_(parameter("scale", {shape.heads}, Initializer::constant(0.7))) {}
  void add_terms(const AttentionContext&, Plan& plan) override {
    plan.biases.push_back(pointwise(PowerOfDistance{}, PerHead{rate_}, PerHead{scale_}));
  }

 private:
  Variable rate_, scale_;  // r, c [H]
};

/// The same for one head by loops: queries, keys and values are x [tokens, d].
Tensor expected_output(const Tensor& x) {
  const std::int64_t tokens = x.size(0), d = x.size(1);
  const double* at = x.data<double>();
  Tensor out = Tensor::zeros(x.shape(), DType::f64);
  for (std::int64_t i = 0; i < tokens; ++i) {
    std::vector<double> weights;
    double total = 0;
    for (std::int64_t j = 0; j < tokens; ++j) {
      double score = 0;
      for (std::int64_t k = 0; k < d; ++k) score += at[i * d + k] * at[j * d + k];
      const double distance = std::abs(static_cast<double>(j - i));
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(d)) - 1.5 * std::log(1 + 0.7 * distance)));
      total += weights.back();
    }
    for (std::int64_t j = 0; j < tokens; ++j)
      for (std::int64_t k = 0; k < d; ++k)
        out.mutable_data<double>()[i * d + k] += weights[static_cast<std::size_t>(j)] / total * at[j * d + k];
  }
  return out;
}

void check() {
  register_method(method<Kerple>());
  // One head without projections, so that queries, keys and values are the states themselves.
  auto attention = attention_factory("average(kerple)")({.model_dim = 4, .heads = 1});
  attention->initialise(1);
  attention->to(DType::f64);
  const Variable x = random_leaf({5, 4}, 1, -2, 2), states = unsqueeze(x, 0);
  for (const AttentionEngine engine : {AttentionEngine::composed, AttentionEngine::fused}) {
    const AttentionEngineScope scope(engine);
    const Variable y = attention->forward({.query = states, .key = states, .value = states});
    expect(engine == AttentionEngine::fused ? "the fused output" : "the output", squeeze(y, 0).value(),
           expected_output(x.value()));
  }
}

int main() { return run(check); }
