/// Dynamic mask attention (DMAN): a learned soft mask that depends on the query, the distance and the head.
/// Fan et al. 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer", eq. 12.
///
///   a_ij = M_ij exp(s_ij) / Σ_k M_ik exp(s_ik),   M_ij = sigmoid(x_i · W + P_{i−j} + U_h)
///
/// Computed as z_ij = s_ij + log M_ij with log sigmoid(x) = −softplus(−x). x_i is the input of the sub-layer. W [d] has
/// no bias. All heads share W and P. P has two tables: `left` for keys j < i, `right` for keys j > i. Entry k of a
/// table belongs to distance k + 1. P_0 = 0. Distances beyond a table read its last entry.
///
/// At the start W and P are small and U = 2: the masks are near 0.88, and the output near that of plain attention. W
/// learns at 1 / sqrt(d) of the rate (NamedParameter::rate).
#pragma once
#include <limits>

#include "attention/method.h"

namespace fovea {

/// The bias: logit + max(log sigmoid(row + offset), floor).
struct LogSigmoidBias {
  static constexpr const char* name = "log_sigmoid_bias";
  double floor = -std::numeric_limits<double>::infinity();
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T row, T offset) const {
    using S = typename ScalarOf<T>::type;
    T log_mask = -softplus(-(row + offset));
    return z + select(log_mask < T(S(floor)), T(S(floor)), log_mask);
  }
};

class DynamicMask : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t clip = 1024;  ///< entries of each table, in tokens
    bool log_floor = false;    ///< log M is at least log 1e-10, as in the authors' code
    /// Initial values as in the authors' code: P and U from N(0, 1), W Xavier-uniform at the full learning rate. Random
    /// masks then hide keys from the start.
    bool published_initial = false;
  };

  static constexpr MethodCard card = {
      "dman", "a learned soft mask of query, distance and head", "Fan et al. 2021, eq. 12",
      "z_ij = s_ij + log sigmoid(x_i . weight + P_(i-j) + head_h), x_i: the input\n"
      "P_0 = 0; P = left[i - j - 1] for j < i, right[j - i - 1] for j > i; beyond clip the last entry"};
  static void visit(OptionVisitor& visitor, Options& options);

  DynamicMask(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  /// P for j − i = −clip, ..., clip: [2 clip + 1].
  Variable offset_table(std::int64_t clip) const;

  Options options_;
  Variable weight_;        // W [d]
  Variable left_, right_;  // P [clip]
  Variable head_;          // U [H]
};

}  // namespace fovea
