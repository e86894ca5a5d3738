/// Attention with linear biases (ALiBi).
/// Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation", §3.
///
///   z_ij = s_ij − 2^(−8 h / H) |j − i|        h = 1, ..., H; the paper has keys j ≤ i only
///
/// H is the number of heads that the method acts on. There are no parameters. Where H is no power of two, the published
/// code has other slopes, and models trained with it need them: those of the largest power of two P < H, behind which
/// come those of 2 P heads with h = 1, 3, 5, ...; for H = 3 the exponents are 4, 8, 2.
#pragma once
#include "attention/method.h"
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
  enum class Slopes { formula, published };
  struct Options {
    Slopes slopes = Slopes::formula;
  };
  static constexpr MethodCard card = {"alibi", "a penalty linear in the distance, with a fixed slope for each head",
                                      "Press et al. 2022, section 3",
                                      "z_ij = q_i . k_j / sqrt(D) - 2^(-8 h / H) |j - i|, h = 1 to H"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.choice("slopes", options.slopes, {"formula", "published"},
                   "published: those of the paper's code, which differ where H is no power of two");
  }

  LinearBiases(const MethodShape& shape, const Options& options) : heads_(shape.heads), options_(options) {}
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  int heads_;
  Options options_;
  CachedValue<Tensor> slopes_;  ///< [H], in the type and on the device of the last call
};

}  // namespace fovea
