#include "nn/layers.h"

#include "autograd/operations.h"

namespace fovea {

LayerNorm::LayerNorm(std::int64_t dim, double epsilon)
    : epsilon_(epsilon),
      gain_(parameter("gain", {dim}, Initializer::ones())),
      bias_(parameter("bias", {dim}, Initializer::zeros())) {}

Variable LayerNorm::forward(const Variable& x) const {
  Scope scope = enter();
  return layer_norm(x, gain_, bias_, epsilon_);
}

Dropout::Dropout(double probability) : probability_(probability) {
  require(0 <= probability && probability < 1, "Dropout: the probability is {}; it must be in [0, 1)", probability);
}

Variable Dropout::forward(const Variable& x) const { return dropout(x, active()); }

Variable Dropout::forward(const Variable& x, const Variable& residual) const {
  return dropout_add(x, residual, active());
}

namespace {

/// Returns relu(x + bias). The backward pass reads the result instead of x, because relu'(x + bias) = relu'(result) and
/// the next matrix product saves the result anyway. One pass over memory computes the gradients of x and of bias.
Variable bias_relu(const Variable& x, const Variable& bias) {
  Tensor value = map(BiasRelu{}, x.value(), bias.value());
  if (!should_record({&x, &bias})) return value;
  return record("bias_relu", value, {x, bias},
                [saved = SavedTensor(value, "result")](const Gradients& g, const Node& node) {
                  Variable gradient = map(Derivative<Relu>{{}, 0}, g[0], node.output(0, saved.get(node)));
                  return Gradients{gradient, gradient};
                });
}

}  // namespace

FeedForward::FeedForward(std::int64_t dim, std::int64_t inner_dim, const Options& options)
    : activation_(options.activation), inner_(dim, inner_dim), outer_(inner_dim, dim), dropout_(options.dropout) {
  child("inner", inner_);
  child("outer", outer_);
  child("dropout", dropout_);
}

Variable FeedForward::forward(const Variable& x) const {
  Scope scope = enter();
  Variable hidden =
      activation_ == Activation::relu ? bias_relu(matmul(x, inner_.weight()), inner_.bias()) : gelu(inner_.forward(x));
  return outer_.forward(dropout_.forward(hidden));
}

}  // namespace fovea
