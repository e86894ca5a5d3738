/// Attention with linear biases (ALiBi).
/// Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation", §3.
///
///   z_ij = s_ij − 2^(−8 h / H) |j − i|        h = 1, ..., H; the paper has keys j ≤ i only
///
/// H is the number of heads that the method acts on. There are no parameters.
#pragma once
#include "attention/registry.h"
#include "nn/cached_value.h"

namespace fovea {

/// The bias: logit − slope · |j − i|.
struct DistanceBias {
  static constexpr const char* name = "distance_bias";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T> at, T slope) const {
    return z - slope * abs(at.key - at.query);
  }
};

class LinearBiases : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"alibi", "a penalty linear in the distance, with a fixed slope for each head",
                                      "Press et al. 2022, section 3",
                                      "z_ij = q_i . k_j / sqrt(D) - 2^(-8 h / H) |j - i|, h = 1 to H"};
  static void visit(OptionVisitor&, Options&) {}

  LinearBiases(const MethodShape& shape, const Options&) : heads_(shape.heads) {}
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  int heads_;
  CachedValue<Tensor> slopes_;  ///< [H], in the type and on the device of the last call
};

}  // namespace fovea
