/// Norms, dropout and the feed-forward block.
#pragma once
#include <memory>
#include <optional>

#include "autograd/operations.h"
#include "nn/linear.h"

namespace fovea {

/// A residual connection whose sum is not computed yet: states + dropout(update + number). The norm that reads it also
/// returns the sum; LayerNorm computes both in one kernel.
struct Residual {
  Variable states;       ///< [..., d]
  Variable update = {};  ///< [..., d]; undefined: the states are the sum
  Tensor number = {};    ///< one for each row of the update, [...]; undefined: 0
  double dropout = 0;    ///< the probability of dropping an element of the update

  Variable sum() const;
};

/// A norm over the last dimension.
class NormLayer : public Module {
 public:
  /// x [..., dim] → [..., dim]
  virtual Variable forward(const Variable& x) const = 0;
  /// Returns the sum of x and its norm.
  virtual AddedAndNormed forward(const Residual& x) const;
};

/// Layer normalisation (Ba et al. 2016): (x − mean) / sqrt(variance + epsilon) · gain + bias. Gains [dim] start at 1,
/// biases [dim] at 0.
class LayerNorm : public NormLayer {
 public:
  /// Throws Error for a negative epsilon.
  explicit LayerNorm(std::int64_t dim, double epsilon = 1e-5);

  Variable forward(const Variable& x) const override;
  AddedAndNormed forward(const Residual& x) const override;

 private:
  double epsilon_;
  Variable gain_, bias_;
};

/// Root mean square normalisation (Zhang and Sennrich 2019): x / sqrt(mean(x²) + epsilon) · gain. Gains [dim] start at
/// 1. It is computed by several operations, and so slower than LayerNorm.
class RmsNorm : public NormLayer {
 public:
  /// Throws Error for a negative epsilon.
  explicit RmsNorm(std::int64_t dim, double epsilon = 1e-5);

  using NormLayer::forward;
  Variable forward(const Variable& x) const override;

 private:
  double epsilon_;
  Variable gain_;
};

enum class NormKind { layer, rms };
/// Throws Error for a negative epsilon.
std::unique_ptr<NormLayer> make_norm(NormKind kind, std::int64_t dim, double epsilon = 1e-5);

/// In training, zeroes each element with the given probability and multiplies the others by 1 / (1 − probability).
/// In evaluation, returns its input.
class Dropout : public Module {
 public:
  /// Throws Error for a probability outside [0, 1).
  explicit Dropout(double probability);

  Variable forward(const Variable& x) const;
  /// The probability with which an element is dropped now: 0 in evaluation.
  double current_probability() const { return training() ? probability_ : 0; }

 private:
  double probability_;
};

/// gelu_tanh is the approximation of gelu by a tanh in Hendrycks and Gimpel 2016, which GPT-2 and T5 1.1 use.
enum class Activation { relu, gelu, gelu_tanh };

/// The feed-forward block of a Transformer: dropout(activation(x W_1 + b_1)) W_2 + b_2. If it is gated (Shazeer 2020),
/// the activation is multiplied by x W_3 + b_3 before dropout. Parts: inner (W_1), outer (W_2), gate (W_3), dropout.
class FeedForward : public Module {
 public:
  struct Options {
    Activation activation = Activation::relu;
    double dropout = 0;
    bool gated = false;
  };
  FeedForward(std::int64_t dim, std::int64_t inner_dim) : FeedForward(dim, inner_dim, Options()) {}
  FeedForward(std::int64_t dim, std::int64_t inner_dim, const Options& options);

  /// x [..., dim] → [..., dim]
  Variable forward(const Variable& x) const;

 private:
  Activation activation_;
  Linear inner_, outer_;
  std::optional<Linear> gate_;
  Dropout dropout_;
};

}  // namespace fovea
