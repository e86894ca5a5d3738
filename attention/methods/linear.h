/// Linear attention: a product of feature maps in place of the softmax, in time linear in the length.
/// Katharopoulos et al. 2020, "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention",
/// section 3.
///
///   o_i = φ(q_i) S_i / (φ(q_i) · z_i),   S_i = Σ_j φ(k_j) v_jᵀ,   z_i = Σ_j φ(k_j),   φ(x) = elu(x) + 1
///
/// The sums run over the keys that i may see. If every query sees all keys, S and z are one matrix product; in causal
/// attention they are prefix sums, computed in chunks of 64 queries. In decoding S and z are the step state of the
/// decoder's memory, so that a step takes O(D D_v) time per head (the memory also holds keys and values). Several
/// documents in one row take linear time too. The denominator is at least 1e-9. AttentionInput::allowed requires a
/// matrix of all pairs, which takes O(I J).
#pragma once
#include "attention/method.h"

namespace fovea {

class LinearAttention : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"linear", "no softmax: products of feature maps, in linear time",
                                      "Katharopoulos et al. 2020, section 3",
                                      "o_i = sum_j f(q_i) . f(k_j) v_j / sum_j f(q_i) . f(k_j), f(x) = elu(x) + 1"};
  static void visit(OptionVisitor&, Options&) {}

  LinearAttention(const MethodShape&, const Options&) {}
  bool has_independent_queries() const override { return true; }
  void add_terms(const AttentionContext& in, Plan& plan) override;
};

}  // namespace fovea
