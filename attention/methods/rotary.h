/// Rotary positions: queries and keys are rotated by angles proportional to their positions.
/// Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 13-16.
///
///   s_ij = (R_i q_i) · (R_j k_j) / sqrt(D)        R_t rotates pair k by the angle t · base^(−2 k / D), k < D / 2
///
/// pairs = neighbours: pair k is (x_{2k}, x_{2k+1}), as in the paper. pairs = halves: (x_k, x_{k+D/2}), as in GPT-NeoX.
/// For odd D the last dimension is not rotated, and D − 1 replaces D in the formula. Other methods of the sum see
/// rotated queries and keys in AttentionContext::query and key; projected_query and projected_key are not rotated.
#pragma once
#include "attention/method.h"
#include "nn/cached_value.h"

namespace fovea {

/// Cosines and signed sines of the rotation angles, one row for each position.
struct RotaryTable {
  std::int64_t first;   ///< position of the first row
  Tensor partner;       ///< for each dimension, the other one of its pair; i64 [D]
  Tensor cosine, sine;  ///< [..., positions, D]; a pair's first dimension has −sin, its second +sin
};

class RotaryPositions : public LocalnessMethod {
 public:
  enum class Pairs { neighbours, halves };
  struct Options {
    Pairs pairs = Pairs::neighbours;
    double base = 10000;  ///< > 1; the larger the base, the slower later pairs rotate
  };
  static constexpr MethodCard card = {
      "rotary", "queries and keys rotated by their positions", "Su et al. 2021, eq. 13-16",
      "s_ij = (R_i q_i) . (R_j k_j) / sqrt(D), R_t rotates pair k < D / 2 by the angle t base^(-2 k / D)\n"
      "pairs=neighbours: (x_2k, x_(2k+1)); halves: (x_k, x_(k + D/2))"};
  static void visit(OptionVisitor& visitor, Options& options);

  RotaryPositions(const MethodShape& shape, const Options& options);
  void change(Surroundings& surroundings) const override { surroundings.positioned = true; }
  /// x [B, H, T, D] rotated by the positions of its tokens, counted from the start of their documents if there are any.
  /// Thread-safe.
  Variable positioned(const Variable& x, const TokenPositions& at) override;
  void add_terms(const AttentionContext&, Plan&) override {}

 private:
  RotaryTable make_table(std::int64_t first, std::int64_t positions, DType dtype, Device device) const;
  /// The table's rows for the T positions of x [B, H, T, D] from `first` on, in x's type and on its device.
  RotaryTable table_of(const Variable& x, std::int64_t first);

  Options options_;
  std::int64_t head_dim_;
  CachedValue<RotaryTable> table_;  // shared by all threads that run this module
};

}  // namespace fovea
