/// Relative positions.
/// Shaw et al. 2018, "Self-Attention with Relative Position Representations", eq. 3-5.
///
///   z_ij = q_i · (k_j + R^K_r) / sqrt(D),   o_i = Σ_j a_ij (v_j + R^V_r),   r = clip(j − i, −k, k)
///
/// R^K and R^V are [2 k + 1, D]; R^V has the width of the values. All heads of a layer share one pair. No tensor of
/// size I · J · D is computed: q_i · R^K_r comes from the table Q R^Kᵀ [I, 2 k + 1], and weights are summed by offset
/// before they are multiplied with R^V.
#pragma once
#include "attention/registry.h"

namespace fovea {

class RelativePositions : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t clip = 16;  ///< k, in tokens
    bool values = true;      ///< use R^V; false: R^K only
  };

  static constexpr MethodCard card = {
      "relative", "relative positions added to keys and values", "Shaw et al. 2018, eq. 3-5",
      "z_ij = q_i . (k_j + key_table_r) / sqrt(D), o_i = sum_j a_ij (v_j + value_table_r)\n"
      "r = min(max(j - i, -clip), clip) + clip; one pair of tables for all heads"};
  static void visit(OptionVisitor& visitor, Options& options);

  RelativePositions(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
  Variable key_table_, value_table_;  // [2 k + 1, D]
};

}  // namespace fovea
