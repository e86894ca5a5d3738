/// Gated heads: each element of a head's output is multiplied by a gate in (0, 1) that is computed from the query's
/// state.
/// Qiu et al. 2025, "Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free",
/// eq. 5, the elementwise gate on each head's output (G1 in the paper).
///
///   o'_i = o_i ⊙ sigmoid(x_i W_g)        x_i: query_states; W_g [d, h D_v], no bias
#pragma once
#include "attention/method.h"
#include "nn/linear.h"

namespace fovea {

class GatedHeads : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"gate", "a sigmoid gate on each element of the heads' outputs",
                                      "Qiu et al. 2025, eq. 5", "o'_i = o_i * sigmoid(x_i gate), element by element"};
  static void visit(OptionVisitor&, Options&) {}

  GatedHeads(const MethodShape& shape, const Options&)
      : gate_(shape.model_dim, shape.heads * shape.value_dim, Linear::Options{.bias = false}) {
    child("gate", gate_);
  }
  bool has_independent_queries() const override { return true; }
  void change(Surroundings& surroundings) const override { surroundings.finished = true; }
  void add_terms(const AttentionContext&, Plan&) override {}
  Variable finish(const Variable& heads, const AttentionContext& in) override {
    return heads * sigmoid(split_heads(gate_.forward(in.query_states), heads.size(-1)));
  }

 private:
  Linear gate_;  // W_g
};

}  // namespace fovea
