/// A differentiable window between two soft pointers, which are predicted from the query or given by the caller.
/// Nguyen et al. 2020, "Differentiable Window for Dynamic Local Attention", eq. 7-17.
///
///   φ^L_i = softmax_j(q^L_i · k^L_j / sqrt(D))    left pointer, over the keys that i may see; φ^R_i the right one
///   F_j = Σ_{k ≤ e(j)} φ_k                        e(j), a(j): last and first key of j's segment; = j if b = 1
///   S_j = Σ_{k ≥ a(j)} φ_k
///   m̂_j = F^L_j S^R_j + F^R_j S^L_j               in [0, 2], because l = j = r counts twice
///
///   multiplicative (MW)  w = softmax(s) · m̂                       after the softmax, not normalised again
///   additive (AW)        z = s + (q^loc · k^loc / sqrt(D)) · m̂    before the softmax
///
/// At the start the projections of pointers and local logits are small: pointers are nearly uniform, m̂ is 2 x (1 - x)
/// at the share x of the row, and an additive window is near plain attention. Pointers' and local logits learn at
/// 1 / sqrt(d) of the rate (NamedParameter::rate): sums over the row amplify changes of the former, and the latter are
/// added to logits that learn at the full rate.
///
/// With pointers = given there are no pointer projections: φ^L and φ^R come with the call (AttentionInput::left_pointer
/// and right_pointer), as distributions over the keys or as positions l and r. A position stands for the distribution
/// with all its mass there. Between two positions m̂_j is a formula of j, l and r, and a multiplicative window takes
/// O(I + J) memory in the fused and the blockwise engine.
#pragma once
#include <optional>

#include "attention/method.h"
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
    std::int64_t segment = 1;  ///< b, the number of keys in a segment
    Mask mask = Mask::paper;   ///< how m̂ is computed from the pointers
    bool renormalize = false;  ///< with use = multiplicative: divide the weights by their sum, or by 1e-9 if greater
    /// For encoder self-attention with mask = paper: restrict the left pointer to keys j ≤ i and the right one to j ≥
    /// i. m̂ is then F^L S^R only.
    bool forward_only = false;
    double pointer_scale = 1;              ///< additional factor of the pointers' logits
    bool pointer_scale_by_length = false;  ///< multiply the pointers' logits by the number of keys that i may see
    /// Initial values as in the authors' code: Xavier-uniform for all projections. Pointers and local logits are then
    /// random from the start, and at learning rates such as 5e-3 each pointer soon is at one key.
    bool published_initial = false;
  };

  static constexpr MethodCard card = {
      "window",
      "differentiable window between two soft pointers",
      "Nguyen et al. 2020, eq. 7-17",
      "left_i = softmax_j(q^L_i . k^L_j / sqrt(D)), q^L = x_q left_query, k^L = x_k left_key; right likewise\n"
      "F_j: sum over the keys up to the end of j's segment; S_j: sum over the keys from its start on\n"
      "m_j = FL_j SR_j + FR_j SL_j; exact: minus the product of both pointers' sums over the segment; prob_or: x + y - "
      "x y\n"
      "discrete: m_j = 1 from the segment of left's maximum to that of right's, else 0; no gradient to the pointers\n"
      "pointers=given: left and right are inputs: distributions over the keys, or positions, where all the mass is\n"
      "multiplicative: w = softmax(s) m; additive: z = s + (x_q local_query) . (x_k local_key) / sqrt(D) m",
      "left_pointer, right_pointer",
      "pointers=given"};
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
  std::optional<Linear> left_query_, left_key_, right_query_, right_key_;  // with pointers = learned
  std::optional<Linear> local_query_, local_key_;                          // with use = additive
};

}  // namespace fovea
