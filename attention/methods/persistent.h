/// Persistent memory: N learned keys and values, which every query sees in addition to those of the tokens.
/// Sukhbaatar et al. 2019b, "Augmenting Self-attention with Persistent Memory", section 4.
///
///   a_i = softmax over the keys of tokens and k'_1 ... k'_N,   o_i = Σ_j a_ij v_j + Σ_n a_in v'_n
///
/// The logit of k'_n is q_i · k'_n / sqrt(D); biases, windows and masks do not change it. As in the paper, k'_n =
/// sqrt(D) K_n and v'_n = sqrt(N) V_n, where the parameters are K and V, separate for each head.
#pragma once
#include <cmath>

#include "attention/method.h"

namespace fovea {

class PersistentMemory : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t vectors = 16;  ///< N
  };
  static constexpr MethodCard card = {
      "persistent", "additional learned keys and values, which every query sees", "Sukhbaatar et al. 2019b, section 4",
      "softmax over the keys of tokens and k'_n = sqrt(D) keys_n, o_i = sum_j a_ij v_j + sum_n a_in v'_n\n"
      "v'_n = sqrt(vectors) values_n"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.integer("vectors", options.vectors, 1, 65536, "N, the number of learned keys and values of each head");
  }

  PersistentMemory(const MethodShape& shape, const Options& options)
      : keys_(parameter("keys", {shape.heads, options.vectors, shape.query_dim},
                        Initializer::normal(1 / root(shape.query_dim)))),
        values_(parameter("values", {shape.heads, options.vectors, shape.value_dim},
                          Initializer::normal(1 / root(options.vectors)))) {}
  bool has_independent_queries() const override { return true; }
  void add_terms(const AttentionContext&, Plan& plan) override {
    plan.extra_keys.push_back({keys_ * root(keys_.size(2)), values_ * root(values_.size(1))});
  }

 private:
  static double root(std::int64_t n) { return std::sqrt(static_cast<double>(n)); }
  Variable keys_, values_;  // K [H, N, D], V [H, N, D_v]
};

}  // namespace fovea
