/// Lightweight and dynamic convolution: fixed weights of the neighbours, or weights that the query computes.
/// Wu et al. 2019, "Pay Less Attention with Lightweight and Dynamic Convolutions", sections 3 and 4.
///
///   o_i = Σ_{r=0..width−1} c_r v_{i+r−left},   c = softmax(W_h), or dynamic: softmax(x_i W_h)
///
/// All dimensions of a head share the weights. left = width − 1 in causal attention, otherwise ⌊(width − 1) / 2⌋.
/// Padding and positions outside of the sentence, or of the query's document, count as zeros, as in the authors' code:
/// the other weights keep their size. The values are a linear layer of the states, without the paper's gated linear
/// unit; the weights are not dropped. No matrix of all pairs is computed. In decoding the values come from the
/// decoder's memory.
#pragma once
#include "attention/registry.h"
#include "nn/linear.h"

namespace fovea {

class LightConvolution : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t width = 7;
    bool dynamic = false;
  };
  static constexpr MethodCard card = {
      "light_convolution", "no pairs: a convolution with softmax weights, shared in a head",
      "Wu et al. 2019, sections 3 and 4",
      "o_i = sum_r c_r v_(i + r - left), c = softmax(weight_h), or dynamic: c = softmax(x_i . filter.weight_h)\n"
      "left = width - 1 if causal, else floor((width - 1) / 2); zeros in place of padding"};
  static void visit(OptionVisitor& visitor, Options& options);

  LightConvolution(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
  Variable weight_;               // W [H, width]
  std::optional<Linear> filter_;  // of dynamic: W [d, H width], no bias
};

}  // namespace fovea
