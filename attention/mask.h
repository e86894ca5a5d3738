/// Mask attention: the caller says how much of each key a query sees.
/// Fan et al. 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer", eq. 4-5.
///
///   a_ij = M_ij exp(s_ij) / Σ_k M_ik exp(s_ik)        M in [0, 1], from AttentionInput::mask
///
/// as z_ij = s_ij + log M_ij, and no key where M_ij = 0; there the mask's gradient is 0. A row of zeros gives zeros.
/// M = 1 is plain attention. M = 1 on the diagonal and 0 beside it, one head and activation(function=relu, width=d_f)
/// is a feed-forward block: W^V its first matrix, W^O its second.
#pragma once
#include "attention/registry.h"

namespace fovea {

/// log M on the logit; a mask at or below `smallest` reads as `instead`.
struct LogMaskBias {
  static constexpr const char* name = "log_mask_bias";
  double smallest = 0, instead = 1;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T mask) const {
    using S = typename ScalarOf<T>::type;
    return z + log(select(mask > T(S(smallest)), mask, T(S(instead))));
  }
};

class MaskAttention : public LocalnessMethod {
 public:
  struct Options {
    bool log_floor = false;  ///< log max(M, 1e-10), as the authors' code: no key is ever quite out of sight
  };

  static constexpr MethodCard card = {"man", "a mask from the caller times exp(logit)", "Fan et al. 2021, eq. 4-5",
                                      "z_ij = q_i . k_j / sqrt(D) + log M_ij, no key where M_ij = 0"};
  static void visit(OptionVisitor& visitor, Options& options);

  MaskAttention(const MethodShape&, const Options& options) : options_(options) {}
  void add_terms(const AttentionContext& in, Terms& terms) override;

 private:
  Options options_;
};

}  // namespace fovea
