/// Scores: the logit of a query and a key, before biases and the softmax.
/// Watson 2019, slides on attention; Luong et al. 2015, section 3.1 and eq. 8; Bahdanau et al. 2015, appendix A.1.2.
///
///   dot         s_ij = q_i · k_j
///   scaled_dot  s_ij = q_i · k_j / sqrt(D)                          the default of every attention
///   general     s_ij = q_i W k_j                                    W [d_q, d_k]
///   additive    s_ij = v · tanh(q_i W + k_j U + b)                  W [d_q, a], U [d_k, a], b [a], v [a]
///   location    s_ij = (q_i W)_j                                    W [d_q, longest]; keys j ≥ longest are not seen
///
/// q_i and k_j are the query and key of a head; in attention without projections they are the inputs themselves. A
/// score on H > 1 heads has separate parameters for each head: the shapes above, with H in front.
#pragma once
#include "attention/method.h"

namespace fovea {

/// The score 0 for all pairs. Weights then depend on biases only.
Score no_score(const AttentionContext& in);

// ---- Parameters for several heads

/// The shape of a parameter: `own` for a method on one head, [heads, own...] on several.
Shape shape_of_heads(const MethodShape& shape, Shape own);
/// The Xavier-uniform initialiser of a matrix [n, 1], for vectors [n] or [heads, n] that map a hidden layer to a
/// number.
Initializer vector_initializer(std::int64_t n);
/// x W + b for each head, [B, H, T, out]. x [B, H, T, in]; weight [in, out] for all heads or [H, in, out]; bias [out],
/// [H, out] or undefined.
Variable project(const Variable& x, const Variable& weight, const Variable& bias = {});
/// The products [B, H, ...] of x [B, H, ..., n] with a vector [n], or with one vector per head [H, n].
Variable project_to_number(const Variable& x, const Variable& vector);

// ---- Methods

class DotProduct : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"dot", "score: the product of query and key, not scaled",
                                      "Luong et al. 2015, section 3.1", "s_ij = q_i . k_j"};
  static void visit(OptionVisitor&, Options&) {}
  DotProduct(const MethodShape& shape, const Options&);
  void add_terms(const AttentionContext& in, Plan& plan) override;
};

class ScaledDotProduct : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"scaled_dot", "score: the product of query and key, divided by sqrt(D)",
                                      "Vaswani et al. 2017, eq. 1", "s_ij = q_i . k_j / sqrt(D)"};
  static void visit(OptionVisitor&, Options&) {}
  ScaledDotProduct(const MethodShape& shape, const Options&);
  void add_terms(const AttentionContext& in, Plan& plan) override;
};

class GeneralProduct : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"general", "score: a bilinear form of query and key",
                                      "Luong et al. 2015, section 3.1", "s_ij = q_i W k_j, W [d_q, d_k]"};
  static void visit(OptionVisitor&, Options&) {}
  GeneralProduct(const MethodShape& shape, const Options&);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Variable weight_;  // W [d_q, d_k]
};

/// The base class of methods whose score has a hidden layer.
class HiddenScoring : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t hidden = 0;  ///< a; 0: the width of the queries
    bool bias = true;         ///< add b, which Shu & Nakayama 2017, eq. 3, do not have
  };
  static void visit(OptionVisitor& visitor, Options& options);

 protected:
  HiddenScoring(const MethodShape& shape, const Options& options);
  std::int64_t width() const { return query_projection_.size(-1); }  ///< a
  /// The score whose hidden layer tanh(q_i W + k_j U + b) is mapped to logits by `weight`, as Score::Form says. `form`
  /// is hidden or hidden_by_dimension.
  Score score(const AttentionContext& in, Score::Form form, const Variable& weight) const;

 private:
  Variable query_projection_, key_projection_, bias_;  // W [d_q, a], U [d_k, a], b [a] or undefined
};

class AdditiveScoring : public HiddenScoring {
 public:
  static constexpr MethodCard card = {"additive", "score: a network with one hidden layer (also called concat)",
                                      "Bahdanau et al. 2015, A.1.2", "s_ij = v . tanh(q_i W + k_j U + b)"};
  AdditiveScoring(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Variable vector_;  // v [a], or [H, a]
};

class LocationScoring : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t longest = 50;  ///< number of keys that have a score, L_max
  };
  static constexpr MethodCard card = {"location", "score: a number for each position, computed from the query alone",
                                      "Luong et al. 2015, eq. 8", "s_ij = (q_i W)_j, W [d_q, longest], j < longest"};
  static void visit(OptionVisitor& visitor, Options& options);
  LocationScoring(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
  Variable weight_;  // W [d_q, longest]
};

}  // namespace fovea
