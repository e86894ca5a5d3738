/// Mask attention (MAN): the caller gives a soft mask, which multiplies the exponentials of the logits.
/// Fan et al. 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer", eq. 4-5.
///
///   a_ij = M_ij exp(s_ij) / Σ_k M_ik exp(s_ik)        M in [0, 1], from AttentionInput::mask
///
/// Computed as z_ij = s_ij + log M_ij. A key with M_ij = 0 is hidden, and the gradient of M_ij is 0 there. If a row of
/// M is 0, all its weights are 0. M = 1 everywhere is plain attention. With one head, the identity matrix as M and
/// activation(function=relu, width=d_f), the attention is a feed-forward block with the matrices W^V and W^O.
#pragma once
#include "attention/method.h"

namespace fovea {

/// The bias: logit + log M. If M ≤ `smallest`, `instead` takes its place.
struct LogMaskBias {
  static constexpr const char* name = "log_mask_bias";
  double smallest = 0, instead = 1;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T mask) const {
    using S = typename ScalarOf<T>::type;
    return z + log(select(mask <= T(S(smallest)), T(S(instead)), mask));  // a NaN stays
  }
};

class MaskAttention : public LocalnessMethod {
 public:
  struct Options {
    bool log_floor = false;  ///< log max(M, 1e-10), as in the authors' code: every key keeps a weight above 0
  };

  static constexpr MethodCard card = {"man", "a soft mask given by the caller", "Fan et al. 2021, eq. 4-5",
                                      "z_ij = q_i . k_j / sqrt(D) + log M_ij; keys with M_ij = 0 are hidden", "mask"};
  static void visit(OptionVisitor& visitor, Options& options);

  MaskAttention(const MethodShape&, const Options& options) : options_(options) {}
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
};

}  // namespace fovea
