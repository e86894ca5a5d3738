/// An activation function on the concatenated heads before W^O, and values of any width.
/// Fan et al. 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer", eq. 5 and 7.
///
///   o = F([o^1; ...; o^H]) W^O + b        W^V [d, d_f], W^O [d_f, d]
///
/// In the paper F is ReLU, and only in attention that acts as a feed-forward block. The authors' code applies ReLU or
/// GELU in every attention. Combines with any method: dman + activation(function=relu).
#pragma once
#include "attention/method.h"

namespace fovea {

class HeadActivation : public LocalnessMethod {
 public:
  enum class Function { none, relu, gelu };
  struct Options {
    Function function = Function::relu;
    std::int64_t width = 0;  ///< d_f, the width of the values of all heads together; 0: d
  };
  static constexpr MethodCard card = {"activation", "an activation function on the heads, before the output projection",
                                      "Fan et al. 2021, eq. 5 and 7", "o = F([o^1; ...; o^H]) W^O + b, W^V [d, d_f]"};
  static void visit(OptionVisitor& visitor, Options& options);

  HeadActivation(const MethodShape& shape, const Options& options);
  void change(Surroundings& surroundings) const override;
  void add_terms(const AttentionContext&, Plan&) override {}

 private:
  Options options_;
};

}  // namespace fovea
