/// Multi-head attention (Vaswani et al. 2017) with any localness methods.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "attention/method.h"
#include "nn/linear.h"

namespace fovea {

/// Q = x_q W^Q + b, K = x_k W^K + b and V = x_v W^V + b are split into H heads. The output is the concatenated results
/// of the heads, times W^O, plus b, or without that projection where the shape has none. Projections are [d, d], unless
/// keys or values have other widths or a method changes the width of the values. Each method acts on all heads or on
/// some of them. Parts: query, key, value, output and the methods.
class MultiHeadAttention : public Attention {
 public:
  /// A method and the heads first_head ≤ h < first_head + heads that it acts on.
  struct Placed {
    std::unique_ptr<LocalnessMethod> method;
    std::string name;  ///< of the part, for parameters' names
    int first_head, heads;
  };

  /// The properties of the attention after all methods have changed them.
  static Surroundings surroundings(const std::vector<Placed>& methods, std::int64_t model_dim);

  /// Throws Error unless the number of heads divides the width of the model and that of the values.
  MultiHeadAttention(const AttentionShape& shape, std::vector<Placed> methods);

  Variable forward(const AttentionInput& input) override;
  std::int64_t output_dim() const override { return output_ ? shape_.model_dim : surroundings_.value_dim; }
  std::int64_t heads() const override { return shape_.heads; }
  bool has_independent_queries() const override;

  /// The arguments of attend(): projected heads and what all methods add.
  struct Call {
    AttentionContext context;
    Plan plan;
  };
  Call call(const AttentionInput& input);

 private:
  AttentionContext context(const AttentionInput& input) const;
  void project_together(const AttentionInput& input, AttentionContext& in) const;

  AttentionShape shape_;
  std::int64_t head_dim_;
  std::vector<Placed> methods_;
  Surroundings surroundings_;  // after all methods have changed them
  bool positioned_alike_;      // all heads, by the methods that do so
  std::int64_t key_heads_;
  Linear query_, key_, value_;
  std::optional<Linear> output_;  // none without AttentionShape::output_projection
};

}  // namespace fovea
