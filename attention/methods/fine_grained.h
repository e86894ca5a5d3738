/// Fine-grained attention: each dimension of the values has its own weights.
/// Choi, Cho & Bengio 2018, "Fine-grained attention mechanism for neural machine translation"; Watson 2019.
///
///   e_ijk = (V tanh(q_i W + k_j U + b))_k       for each dimension k of the values
///   a_ijk = softmax over j,  o_ik = Σ_j a_ijk v_jk
///
/// W [d_q, a], U [d_k, a], b [a], V [a, d_v]. This equals additive attention with one head per dimension of the values,
/// where all heads share the hidden layer.
#pragma once
#include "attention/methods/score.h"

namespace fovea {

class FineGrained : public HiddenScoring {
 public:
  static constexpr MethodCard card = {"fine_grained", "score: additive, with weights for each dimension of the values",
                                      "Choi et al. 2018; Watson 2019",
                                      "a_ijk = softmax_j (V tanh(q_i W + k_j U + b))_k, o_ik = sum_j a_ijk v_jk"};
  FineGrained(const MethodShape& shape, const Options& options)
      : HiddenScoring(shape, options),
        dimensions_(parameter("dimensions", shape_of_heads(shape, {width(), shape.value_dim}),
                              Initializer::xavier_uniform())) {}
  void add_terms(const AttentionContext& in, Plan& plan) override {
    plan.scores.push_back(score(in, Score::Form::hidden_by_dimension, dimensions_));
  }

 private:
  Variable dimensions_;  // V [a, d_v]
};

}  // namespace fovea
