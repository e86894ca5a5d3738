/// A soft bound of the scores.
/// Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size", §2.
///
///   s_ij = c tanh(q_i · k_j / (c sqrt(D)))        before biases and masks
#pragma once
#include "attention/method.h"

namespace fovea {

/// cap · tanh(s / cap)
struct SoftCapScore {
  static constexpr const char* name = "soft_cap_score";
  double cap;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T s, Position<T>) const {
    using S = typename ScalarOf<T>::type;
    return T(S(cap)) * tanh(s * T(S(1 / cap)));
  }
};

class SoftCap : public LocalnessMethod {
 public:
  struct Options {
    double cap = 50;  ///< c
  };
  static constexpr MethodCard card = {"soft_cap", "scores bounded by a hyperbolic tangent",
                                      "Gemma Team 2024, section 2", "s_ij = c tanh(q_i . k_j / (c sqrt(D)))"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.number("cap", options.cap, 1e-3, 1e6, "c, the bound of the absolute value of a score");
  }

  SoftCap(const MethodShape&, const Options& options) : options_(options) {}
  void add_terms(const AttentionContext&, Plan& plan) override {
    plan.score_changes.push_back(pointwise(SoftCapScore{options_.cap}));
  }

 private:
  Options options_;
};

}  // namespace fovea
