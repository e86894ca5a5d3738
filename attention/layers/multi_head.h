/// Multi-head attention with any localness methods. Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "attention/layers/placed_methods.h"
#include "nn/linear.h"

namespace fovea {

/// Q = x_q W^Q + b, K = x_k W^K + b and V = x_v W^V + b are split into H heads. The output is the concatenated outputs
/// of the heads, times W^O, plus b. AttentionShape::output_projection = false leaves out W^O and b. W^Q, W^K, W^V and
/// W^O are [d, d], unless AttentionShape::head_dim is given (W^Q, W^K, W^V [d, H D], W^O [H D, d]), keys or values have
/// other widths or a method changes the width of the values or the number of key heads. Each method acts on all heads
/// or on some of them. Names of the parts: query, key, value, output and those of the methods.
class MultiHeadAttention : public Attention {
 public:
  /// Throws Error unless the number of heads divides the width of the model (or head_dim is given) and that of the
  /// values, and the number of key heads divides the number of heads.
  MultiHeadAttention(const AttentionShape& shape, PlacedMethods methods);

  Variable forward(const AttentionInput& input) override;
  std::int64_t output_dim() const override { return output_ ? shape_.model_dim : surroundings_.value_dim; }
  std::int64_t heads() const override { return shape_.heads; }
  bool has_independent_queries() const override;

  /// The arguments of attend() for one call: the context with the projected heads, and the terms of all methods.
  struct Call {
    AttentionContext context;
    Plan plan;
  };
  Call call(const AttentionInput& input);

 private:
  Variable forward_of_clean(const AttentionInput& input);
  AttentionContext context(const AttentionInput& input) const;
  void project_together(const AttentionInput& input, AttentionContext& in) const;

  AttentionShape shape_;
  std::int64_t head_dim_;
  PlacedMethods methods_;
  Surroundings surroundings_;  // after the change() of all methods
  bool positioned_alike_;      // whether every method with positioned() acts on all heads
  std::int64_t key_heads_;
  Linear query_, key_, value_;
  std::optional<Linear> output_;  // W^O; absent if AttentionShape::output_projection is false
};

}  // namespace fovea
