/// Local attention: a hard window of 2 D + 1 keys around a centre.
/// Luong, Pham & Manning 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.2.
///
///   local_m   p_i = min(i, len − 1)                                 i: the decoder's step, or the query's position
///             w_i = softmax over the keys p_i − D ≤ j ≤ p_i + D
///   local_p   p_i = (len − 1) sigmoid(v · tanh(q_i W))              W [d_q, a], v [a]
///             w_ij = a_ij exp(−(j − p_i)² / (2 sigma²)), sigma = D / 2, where a_i = softmax over the window
///
/// At the start v is small, so that p is near the middle of the keys. W and v learn at 1 / sqrt(d_q) and 1 / sqrt(a) of
/// the rate (NamedParameter::rate).
///
/// The window of local_p is floor(p) − D ≤ j ≤ floor(p) + D, as in the authors' code. The gradient reaches p through
/// the Gaussian only. Both combine with any score.
#pragma once
#include "attention/method.h"
#include "attention/methods/ranges.h"

namespace fovea {

class LocalMonotonic : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t half_width = 10;  ///< D, in tokens
  };
  static constexpr MethodCard card = {"local_m", "a hard window around the query's own position",
                                      "Luong et al. 2015, section 3.2",
                                      "softmax over p_i - D <= j <= p_i + D, p_i = min(i, len - 1)"};
  static void visit(OptionVisitor& visitor, Options& options);
  LocalMonotonic(const MethodShape&, const Options& options) : options_(options) {}
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
};

class LocalPredictive : public LocalnessMethod {
 public:
  enum class CenterScale { last, paper };
  enum class Truncation { floor, exact };
  struct Options {
    double half_width = 10;   ///< D, in tokens; sigma = D / 2
    std::int64_t hidden = 0;  ///< a; 0: the width of the queries
    /// last: p = (len − 1) sigmoid, as in the authors' code; paper: p = len · sigmoid
    CenterScale center_scale = CenterScale::last;
    /// floor: a window around floor(p), as in the authors' code; exact: p − D ≤ j ≤ p + D
    Truncation truncation = Truncation::floor;
    bool renormalize = false;  ///< divide the weights by their sum, so that they sum to 1
  };
  static constexpr MethodCard card = {
      "local_p", "a Gaussian in a hard window around a predicted position", "Luong et al. 2015, eq. 9-10",
      "w_ij = a_ij exp(-(j - p_i)^2 / (2 sigma^2)), sigma = half_width / 2\n"
      "p_i = (len - 1) sigmoid(vector . tanh(q_i projection)); a_i: softmax over floor(p_i) +- half_width"};
  static void visit(OptionVisitor& visitor, Options& options);
  LocalPredictive(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
  Variable projection_, vector_;  // W [d_q, a], v [a]
};

}  // namespace fovea
