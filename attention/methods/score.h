/// Scores: the logit of a query and a key, before biases and the softmax.
/// Watson 2019, slides on attention; Luong et al. 2015, section 3.1 and eq. 8; Bahdanau et al. 2015, appendix A.1.2.
///
///   dot         s_ij = q_i · k_j
///   scaled_dot  s_ij = q_i · k_j / sqrt(D)                          the default of every attention
///   general     s_ij = q_i W k_j                                    W [d_q, d_k]
///   additive    s_ij = v · tanh(q_i W + k_j U + b)                  W [d_q, a], U [d_k, a], b [a], v [a]
///   location    s_ij = (q_i W)_j                                    W [d_q, longest]; keys j ≥ longest are not seen
///
/// q_i and k_j are a head's query and key; in attention without projections, the inputs themselves. A score on several
/// heads has separate parameters for each head, whose shapes begin with the number of heads.
#pragma once
#include "attention/registry.h"

namespace fovea {

/// The score 0 for all pairs, so that weights depend on positions only.
Score no_score(const AttentionContext& in);

// ---- Parameters for several heads

/// The shape of a parameter: `own` for a method on one head, [heads, own...] on several.
Shape shape_of_heads(const MethodShape& shape, Shape own);
/// Xavier-uniform for vectors [n] or [heads, n] that a hidden layer of width n is multiplied with.
Initializer vector_initializer(std::int64_t n);
/// x W + b, for each head. x [B, H, T, in], weight [in, out] or [H, in, out], bias [out], [H, out] or undefined
/// → [B, H, T, out]
Variable project(const Variable& x, const Variable& weight, const Variable& bias = {});
/// The products of x [B, H, ..., n] with a vector [n] or one vector per head [H, n] → [B, H, ...]
Variable project_to_number(const Variable& x, const Variable& vector);

/// Parameters of a score's hidden layer, tanh(q_i W + k_j U + b).
struct HiddenLayer {
  Variable query_projection, key_projection, bias;  ///< W [d_q, a], U [d_k, a], b [a] or undefined
};
/// The score of a hidden layer, whose `weight` makes numbers of tanh(q_i W + k_j U + b).
Score hidden_score(const AttentionContext& in, const HiddenLayer& layer, Score::Form form, const Variable& weight);

// ---- Methods

class DotProduct : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"dot", "score: the product of query and key", "Luong et al. 2015, section 3.1",
                                      "s_ij = q_i . k_j"};
  static void visit(OptionVisitor&, Options&) {}
  DotProduct(const MethodShape& shape, const Options&);
  void add_terms(const AttentionContext& in, Plan& plan) override;
};

class ScaledDotProduct : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"scaled_dot", "score: the product over the square root of the keys' width",
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
    bool bias = true;         ///< b; Shu & Nakayama 2017, eq. 3, has none
  };
  static void visit(OptionVisitor& visitor, Options& options);

 protected:
  HiddenScoring(const MethodShape& shape, const Options& options);
  std::int64_t width() const { return hidden_.query_projection.size(-1); }  ///< a
  HiddenLayer hidden_;
};

class AdditiveScoring : public HiddenScoring {
 public:
  static constexpr MethodCard card = {"additive", "score: a network with one hidden layer (also called concat)",
                                      "Bahdanau et al. 2015, A.1.2", "s_ij = v . tanh(q_i W + k_j U + b)"};
  AdditiveScoring(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Variable vector_;  // v [a]
};

class LocationScoring : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t longest = 50;  ///< number of keys that have a score, L_max
  };
  static constexpr MethodCard card = {"location", "score: the query alone says where to look",
                                      "Luong et al. 2015, eq. 8", "s_ij = (q_i W)_j, W [d_q, longest], j < longest"};
  static void visit(OptionVisitor& visitor, Options& options);
  LocationScoring(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
  Variable weight_;  // W [d_q, longest]
};

}  // namespace fovea
