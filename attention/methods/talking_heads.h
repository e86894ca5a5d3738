/// Talking heads: the logits and the weights of each head are learned linear combinations over all heads.
/// Shazeer et al. 2020, "Talking-Heads Attention".
///
///   z'_hij = Σ_g before_hg z_gij        before the softmax, after all biases
///   w'_hij = Σ_g after_hg w_gij         after the softmax and windows
///
/// The matrices start near the identity, for which the method is plain attention; the paper draws them at random. In
/// the paper the numbers of heads before, between and after the matrices may differ; here they are equal. A key that
/// head g does not see contributes 0 to the logits of other heads; the matrix `after` may still give head g a weight
/// for it.
#pragma once
#include "attention/method.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

class TalkingHeads : public LocalnessMethod {
 public:
  struct Options {
    bool before = true, after = true;  ///< whether the matrix exists
  };
  static constexpr MethodCard card = {"talking_heads", "linear combinations of the heads, before and after the softmax",
                                      "Shazeer et al. 2020",
                                      "z'_hij = sum_g before_hg z_gij, w'_hij = sum_g after_hg w_gij"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.flag("before", options.before, "combine the heads' logits");
    visitor.flag("after", options.after, "combine the heads' weights");
  }

  TalkingHeads(const MethodShape& shape, const Options& options) {
    require(options.before || options.after, "talking_heads: before=false and after=false leave nothing to combine");
    if (options.before) before_ = parameter("before", {shape.heads, shape.heads}, near_identity());
    if (options.after) after_ = parameter("after", {shape.heads, shape.heads}, near_identity());
  }
  bool has_independent_queries() const override { return true; }
  void add_terms(const AttentionContext&, Plan& plan) override { plan.mixings.push_back({before_, after_}); }

 private:
  static Initializer near_identity() {
    return {"identity + N(0, 0.02)", [](Tensor& values, Generator& generator) {
              fill_normal(values, generator, 0, 0.02);
              Tensor diagonal = values.as_strided({values.size(0)}, {values.size(1) + 1});
              map_into(diagonal, Affine{1, 1}, diagonal);
            }};
  }

  Variable before_, after_;  // [h, h]; undefined: not mixed
};

}  // namespace fovea
