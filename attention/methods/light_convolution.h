/// Lightweight and dynamic convolution: a weighted sum of the neighbouring values, with learned weights or with weights
/// that are computed from the query's state.
/// Wu et al. 2019, "Pay Less Attention with Lightweight and Dynamic Convolutions", sections 3 and 4.
///
///   o_i = Σ_{r=0..width−1} c_r v_{i+r−left},   c = softmax(W_h), or dynamic: softmax(x_i W_h)
///
/// All dimensions of a head share the weights. left = width − 1 in causal attention, otherwise ⌊(width − 1) / 2⌋.
/// Values of padding, and of positions outside of the sentence or of the query's document, count as zeros, as in the
/// authors' code: the other weights are not renormalised. The values are a linear layer of the states, without the
/// gated linear unit of the paper. There is no dropout of weights. No matrix of all pairs is computed, unless
/// AttentionInput::allowed is given. In decoding, earlier values come from the decoder's memory.
#pragma once
#include "attention/method.h"
#include "nn/linear.h"

namespace fovea {

class LightConvolution : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t width = 7;  ///< in tokens, including the query's own
    bool dynamic = false;    ///< c is computed from the query's state
  };
  static constexpr MethodCard card = {
      "light_convolution", "no query-key pairs: a convolution of the values with softmax weights",
      "Wu et al. 2019, sections 3 and 4",
      "o_i = sum_r c_r v_(i + r - left), c = softmax(weight_h), or dynamic: c = softmax(x_i . filter.weight_h)\n"
      "left = width - 1 if causal, else floor((width - 1) / 2); zeros in place of padding"};
  static void visit(OptionVisitor& visitor, Options& options);

  LightConvolution(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
  Variable weight_;               // W [H, width]
  std::optional<Linear> filter_;  // with dynamic: W [d, H width], no bias
};

}  // namespace fovea
