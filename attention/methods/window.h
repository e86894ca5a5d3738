/// Differentiable windows.
/// Nguyen et al. 2020, "Differentiable Window for Dynamic Local Attention", eq. 7-17.
///
///   φ^L_i = softmax_j(q^L_i · k^L_j / sqrt(D))    left pointer, over the keys that i may see; φ^R_i the right one
///   F_j = Σ_{k ≤ e(j)} φ_k                        e(j), a(j): last and first key of j's segment; j itself by token
///   S_j = Σ_{k ≥ a(j)} φ_k
///   m̂_j = F^L_j S^R_j + F^R_j S^L_j               in [0, 2], because l = j = r counts twice
///
///   multiplicative (MW)  w = softmax(s) · m̂                       after the softmax, not normalised again
///   additive (AW)        z = s + (q^loc · k^loc / sqrt(D)) · m̂    before it
///
/// With pointers = given there are no pointer projections: φ^L and φ^R come with the call
/// (AttentionInput::left_pointer and right_pointer), as distributions or as positions l and r, which stand for
/// distributions with all their mass in one place. Between positions F and S are 0 or 1, m̂_j is a formula of j, l and
/// r, and a multiplicative window takes O(I + J) memory in every engine.
#pragma once
#include <optional>

#include "attention/registry.h"
#include "nn/linear.h"

namespace fovea {

class DifferentiableWindow : public LocalnessMethod {
 public:
  enum class Pointers { learned, given };
  enum class Use { multiplicative, additive };
  using Mask = PointerWindow::Mask;
  struct Options {
    Pointers pointers = Pointers::learned;
    Use use = Use::multiplicative;
    std::int64_t segment = 1;  ///< b, in tokens
    Mask mask = Mask::paper;   ///< how m̂ is made of the pointers
    bool renormalize = false;  ///< with use = multiplicative: divide by the row's sum, or by 1e-9 if that is larger
    /// For encoder self-attention with mask = paper: the left pointer stays at or before i, the right one at or behind
    /// it, and m̂ is the first product only.
    bool forward_only = false;
    double pointer_scale = 1;              ///< multiplies the pointers' logits
    bool pointer_scale_by_length = false;  ///< multiplies them by the number of keys that i may see
  };

  static constexpr MethodCard card = {
      "window", "differentiable window between two soft pointers", "Nguyen et al. 2020, eq. 7-17",
      "left_i = softmax_j(q^L_i . k^L_j / sqrt(D)), q^L = x_q left_query, k^L = x_k left_key; right likewise\n"
      "F_j: sum over the keys to the end of j's segment, S_j: over those from its start\n"
      "m_j = FL_j SR_j + FR_j SL_j; exact: less the product of the segment's own masses; prob_or: x + y - x y\n"
      "discrete: m_j = 1 from the segment of left's largest to that of right's, else 0; no gradient to the pointers\n"
      "pointers=given: left and right are inputs, distributions over the keys, or positions: all mass at one key\n"
      "multiplicative: w = softmax(s) m; additive: z = s + (x_q local_query) . (x_k local_key) / sqrt(D) m"};
  static void visit(OptionVisitor& visitor, Options& options);

  DifferentiableWindow(const MethodShape& shape, const Options& options);
  void add_layers(StateLayers& layers) const override;
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  void add_learned_window(const AttentionContext& in, Plan& plan) const;
  void add_given_window(const AttentionContext& in, Plan& plan) const;
  /// Adds q^loc and k^loc if the window is additive.
  void add_local_logits(const AttentionContext& in, std::vector<Capture>& captures) const;
  /// Projected states as heads, [B, H, I, D] and [B, H, J, D].
  Variable queries(const AttentionContext& in, const Linear& projection) const;
  Variable keys(const AttentionContext& in, const Linear& projection) const;

  Options options_;
  std::int64_t head_dim_;
  std::optional<Linear> left_query_, left_key_, right_query_, right_key_;  // of learned pointers
  std::optional<Linear> local_query_, local_key_;                          // of use = additive
};

}  // namespace fovea
