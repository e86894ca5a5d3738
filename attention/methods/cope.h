/// Contextual position encoding (CoPE): the position of a key is the number of tokens between it and the query, each
/// counted with a gate in [0, 1] that depends on the query and the token.
/// Golovneva et al. 2024, "Contextual Position Encoding: Learning to Count What's Important", section 4.
///
///   z_ij = s_ij + (1 − w) q_i · e_⌊p⌋ + w q_i · e_⌈p⌉,   w = p − ⌊p⌋
///   p = p_ij = min(Σ_{k=j..i} sigmoid(s_ik), longest)
///
/// s is the score, after the score changes of methods before this one in the sum (soft_cap). A product score has its
/// factor 1 / sqrt(D); q · e has none, as in the authors' listing. Biases do not affect the gates. The sum over k has
/// only keys that i may see by lengths, causality and AttentionInput::allowed; hard windows do not change it. Positions
/// are counted from a key to a later query, so the method is defined in the self-attention of a decoder only. The heads
/// of a layer share e, whose initial values are 0: at first the method is plain attention. p is [B, H, I, J].
#pragma once
#include "attention/method.h"

namespace fovea {

class ContextualPositions : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t longest = 64;  ///< the largest position
  };
  static constexpr MethodCard card = {
      "cope", "contextual positions: sums of gates over the keys up to the query", "Golovneva et al. 2024, section 4",
      "z_ij = s_ij + q_i . e(p_ij), p_ij = min(sum over k = j to i of sigmoid(s_ik), longest)\n"
      "e(p): between rows floor(p) and floor(p) + 1 of table; in a decoder's self-attention only"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.integer("longest", options.longest, 1, 65536, "the largest position; larger sums of gates are clipped");
  }

  /// Throws Error unless the place is a decoder's self-attention.
  ContextualPositions(const MethodShape& shape, const Options& options);
  /// Throws Error unless the attention is causal.
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Variable table_;  // e [longest + 1, D]
};

}  // namespace fovea
