/// Static mask attention (SMAN): a hard window, in which a query sees the keys within a distance b.
/// Fan et al. 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer", eq. 11.
///
///   a_ij = M_ij exp(s_ij) / Σ_k M_ik exp(s_ik),   M_ij = [|i − j| ≤ b]
///
/// b = sqrt(len) / 2 (SMAN1) or b = distance (SMAN2). len is the number of keys that i may see; in causal attention, of
/// those up to i.
#pragma once
#include "attention/method.h"

namespace fovea {

class StaticMask : public LocalnessMethod {
 public:
  enum class Width { sqrt, fixed };
  struct Options {
    Width width = Width::sqrt;
    std::int64_t distance = 4;  ///< with width = fixed: b, in tokens
  };

  static constexpr MethodCard card = {
      "sman", "a hard window of fixed width, or of width sqrt(length)", "Fan et al. 2021, eq. 11",
      "softmax over the keys with |i - j| <= b; b = sqrt(len) / 2, or distance with width=fixed"};
  static void visit(OptionVisitor& visitor, Options& options);

  StaticMask(const MethodShape&, const Options& options) : options_(options) {}
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
};

}  // namespace fovea
