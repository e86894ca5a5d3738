/// Multi-head attention (Vaswani et al. 2017) with any localness methods.
#pragma once
#include <memory>
#include <vector>

#include "attention/method.h"
#include "nn/linear.h"

namespace fovea {

/// Q = x_q W^Q + b, K = x_k W^K + b, V = x_v W^V + b, split into H heads; attention per head; concatenated heads W^O +
/// b. Every projection is [d, d], unless keys or values have other widths or a method makes the values wider. The
/// methods act on all heads, or on those they were made for.
class MultiHeadAttention : public Attention {
 public:
  /// A method and the heads [first, first + count) that it acts on.
  struct Placed {
    std::unique_ptr<LocalnessMethod> method;
    std::string name;  ///< of its parameters
    int first_head, heads;
  };

  /// What the methods change around them.
  static Surroundings surroundings(const std::vector<Placed>& methods, std::int64_t model_dim);

  /// Throws unless the number of heads divides the model's width.
  MultiHeadAttention(const AttentionShape& shape, std::vector<Placed> methods);

  Variable forward(const AttentionInput& input) override;
  std::int64_t output_dim() const override { return shape_.model_dim; }
  bool has_independent_queries() const override;

  /// What forward() hands to the engine: heads projected, and the terms of all methods.
  struct Call {
    AttentionContext context;
    Terms terms;
  };
  Call call(const AttentionInput& input);

 private:
  AttentionContext context(const AttentionInput& input) const;
  void project_together(const AttentionInput& input, AttentionContext& in) const;

  AttentionShape shape_;
  std::int64_t head_dim_;
  std::vector<Placed> methods_;
  Surroundings surroundings_;  // as the methods want them
  Linear query_, key_, value_, output_;
};

}  // namespace fovea
