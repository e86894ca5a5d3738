/// Forgetting attention: each token l has a forget gate f_l in (0, 1), which multiplies the unnormalised weights of the
/// keys before it, for the queries from it on.
/// Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", section 3.
///
///   z_ij = s_ij + Σ_{l=j+1..i} log f_l,   f_l = sigmoid(x_l · w_h + b_h)          per head
///
/// x_l are the states of the keys. With c_i = Σ_{l≤i} log f_l the bias is c_i − c_j. The sum runs from a key to a later
/// query, so the method is defined in the self-attention of a decoder only.
#pragma once
#include "attention/method.h"
#include "nn/linear.h"

namespace fovea {

/// The bias: logit + (c_i − c_j).
struct DecayBias {
  static constexpr const char* name = "decay_bias";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T of_query, T of_key) const {
    return z + (of_query - of_key);
  }
};

class ForgettingAttention : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {
      "forgetting", "learned forget gates lower the weights of earlier keys", "Lin et al. 2025, section 3",
      "z_ij = s_ij + sum over l = j + 1 to i of log f_l, f_l = sigmoid(x_l . gate.weight_h + gate.bias_h)\n"
      "x_l: the states of the keys; in a decoder's self-attention only"};
  static void visit(OptionVisitor&, Options&) {}

  ForgettingAttention(const MethodShape& shape, const Options&);
  void add_layers(StateLayers& layers) const override { layers.of_key.push_back(&gate_); }
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Linear gate_;  // w [d, H], b [H]
};

}  // namespace fovea
