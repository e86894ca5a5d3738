/// Sparsemax in place of the softmax: most weights are exactly 0.
/// Martins & Astudillo 2016, "From Softmax to Sparsemax: A Sparse Model of Attention and Multi-Label Classification",
/// Proposition 1 and section 2.5.
///
///   a_i = argmin_p |p − z_i|²            over p ≥ 0 with Σ_j p_j = 1
///   a_ij = max(z_ij − τ_i, 0)            τ_i = (Σ_{j in S_i} z_ij − 1) / |S_i|, S_i: the keys with a_ij > 0
///   dz_ij = g_ij − Σ_{k in S_i} g_ik / |S_i|        on S_i, and 0 elsewhere; g: the gradient of a
///
/// At a point where a key enters S_i the gradient jumps; there the gradient for the smaller S_i is used.
#pragma once
#include "attention/method.h"

namespace fovea {

/// Sparsemax over the last dimension. Elements that are −inf or for which `allow` is false get weight 0; a row without
/// other elements is 0. `allow` is bool and broadcasts to the logits; undefined: all elements are allowed. NaN is
/// propagated as in softmax().
Variable sparsemax(const Variable& logits, const Tensor& allow = {});

/// Sparsemax as part of a plan.
struct SparsemaxNormalizer : CustomNormalizer {
  Variable weights(const Variable& z, std::int64_t, const Tensor& allow, const Captured&) const override {
    return sparsemax(z, allow);
  }
};

class Sparsemax : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"sparsemax", "sparsemax in place of the softmax: most weights are 0",
                                      "Martins & Astudillo 2016, Proposition 1",
                                      "a_ij = max(z_ij - tau_i, 0), tau_i such that sum_j a_ij = 1"};
  static void visit(OptionVisitor&, Options&) {}

  Sparsemax(const MethodShape&, const Options&) {}
  bool has_independent_queries() const override { return true; }
  void add_terms(const AttentionContext&, Plan& plan) override {
    plan.normalizers.push_back({Normalizer::Form::custom, std::make_shared<SparsemaxNormalizer>()});
  }
};

}  // namespace fovea
