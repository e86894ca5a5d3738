/// Relative positions: a learned vector for each relative position is added to the keys and to the values.
/// Shaw et al. 2018, "Self-Attention with Relative Position Representations", eq. 3-5.
///
///   z_ij = q_i · (k_j + R^K_r) / sqrt(D),   o_i = Σ_j a_ij (v_j + R^V_r),   r = clip(j − i, −k, k)
///
/// The tables R^K [2 k + 1, D] and R^V [2 k + 1, D_v] are shared by all heads of a layer. No tensor of size I · J · D
/// is computed: the products q_i · R^K_r are a table Q R^Kᵀ [I, 2 k + 1], from which pairs read, and weights of equal r
/// are added before they are multiplied with R^V.
#pragma once
#include "attention/method.h"

namespace fovea {

class RelativePositions : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t clip = 16;  ///< k, the largest distance with vectors of its own, in tokens
    bool values = true;      ///< add R^V to the values; false: R^K only
    /// Initial values between 0 and 1, as in the baseline of Nguyen et al. 2020 (their code), not Xavier-uniform.
    bool unit_initial = false;
  };

  static constexpr MethodCard card = {
      "relative", "learned vectors of the relative position, added to keys and values", "Shaw et al. 2018, eq. 3-5",
      "z_ij = q_i . (k_j + key_table_r) / sqrt(D), o_i = sum_j a_ij (v_j + value_table_r)\n"
      "r = min(max(j - i, -clip), clip) + clip; one pair of tables for all heads"};
  static void visit(OptionVisitor& visitor, Options& options);

  RelativePositions(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
  Variable key_table_, value_table_;  // R^K [2 k + 1, D], R^V [2 k + 1, D_v]
};

}  // namespace fovea
