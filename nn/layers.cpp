#include "nn/layers.h"

#include "autograd/map.h"
#include "autograd/operations.h"
#include "tensor/constant.h"
#include "tensor/formula/functions.h"
#include "tensor/gemm.h"

namespace fovea {

AddedAndNormed NormLayer::forward(const Residual& x) const {
  const Variable sum = x.sum();
  return {sum, forward(sum)};
}

LayerNorm::LayerNorm(std::int64_t dim, double epsilon)
    : epsilon_(epsilon),
      gain_(parameter("gain", {dim}, Initializer::ones())),
      bias_(parameter("bias", {dim}, Initializer::zeros())) {
  require(epsilon >= 0, "LayerNorm: epsilon is {}; it must be at least 0", epsilon);
}

Variable LayerNorm::forward(const Variable& x) const {
  Scope scope = enter();
  return layer_norm(x, gain_, bias_, epsilon_);
}

AddedAndNormed LayerNorm::forward(const Residual& x) const {
  if (!x.update.defined()) return {x.states, forward(x.states)};
  Scope scope = enter();
  return add_norm(x.update, x.states, x.number, x.dropout, gain_, bias_, epsilon_);
}

RmsNorm::RmsNorm(std::int64_t dim, double epsilon)
    : epsilon_(epsilon), gain_(parameter("gain", {dim}, Initializer::ones())) {
  require(epsilon >= 0, "RmsNorm: epsilon is {}; it must be at least 0", epsilon);
}

Variable RmsNorm::forward(const Variable& x) const {
  Scope scope = enter();
  // Large rows are divided by their largest number, which is a constant to the gradient: squares would be infinite.
  const Variable one(constant_like(x, 1)), largest = maximum(maximum_over(abs(x.detach()), -1, true), one);
  const Variable scaled = x / largest;
  return scaled / sqrt(mean(square(scaled), {-1}, true) + epsilon_ / square(largest)) * gain_;
}

std::unique_ptr<NormLayer> make_norm(NormKind kind, std::int64_t dim, double epsilon) {
  if (kind == NormKind::rms) return std::make_unique<RmsNorm>(dim, epsilon);
  return std::make_unique<LayerNorm>(dim, epsilon);
}

Variable Residual::sum() const {
  if (!update.defined()) return states;
  return dropout_add(number.defined() ? update + Variable(number.unsqueeze(-1)) : update, states, dropout);
}

Dropout::Dropout(double probability) : probability_(probability) {
  require(0 <= probability && probability < 1, "Dropout: the probability is {}; it must be in [0, 1)", probability);
}

Variable Dropout::forward(const Variable& x) const { return dropout(x, current_probability()); }

namespace {

struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    constexpr double slope = 0.79788456080286536;  // sqrt(2 / pi)
    return with_exact_tails(x, T(0.5) * x * (T(1) + tanh(T(slope) * (x + T(0.044715) * x * x * x))));
  }
};

/// Returns relu(x · weight + bias). The backward pass reads the result instead of the sum, because relu'(sum) =
/// relu'(result) and the next matrix product saves the result anyway. One pass over memory adds the bias and applies
/// relu.
Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias) {
  if (x.rank() != 2) {
    Shape shape = x.shape();
    shape[-1] = weight.size(1);
    return reshape(linear_relu(reshape(x, {-1, x.size(-1)}), weight, bias), shape);
  }
  Tensor value = matmul(x.value_for("linear_relu"), weight.value_for("linear_relu"));
  map_into(value, BiasRelu{}, value, bias.value_for("linear_relu"));
  if (!should_record({&x, &weight, &bias})) return value;
  return record(
      "linear_relu", value, {x, weight, bias},
      [x = Saved(x), weight = Saved(weight), saved = SavedTensor(value, "result")](const Gradients& g,
                                                                                   const Node& node) {
        const Variable& by = weight.get(node);
        const Variable of_sum = map(Derivative<Relu>{{}, 0}, g[0], node.output(0, saved.get(node)));
        auto [of_weight, of_bias] = linear_gradients(of_sum, x.get(node), by, node.needs(1), node.needs(2));
        return Gradients{node.needs(0) ? matmul(of_sum, transpose(by, 0, 1)) : Variable(), of_weight, of_bias};
      });
}

/// Returns activation(layer(x)).
Variable activated(Activation activation, const Linear& layer, const Variable& x) {
  if (activation == Activation::relu) return linear_relu(x, layer.weight(), layer.bias());
  const Variable sum = layer.forward(x);
  return activation == Activation::gelu ? gelu(sum) : map(GeluTanh{}, sum);
}

}  // namespace

FeedForward::FeedForward(std::int64_t dim, std::int64_t inner_dim, const Options& options)
    : activation_(options.activation), inner_(dim, inner_dim), outer_(inner_dim, dim), dropout_(options.dropout) {
  child("inner", inner_);
  child("outer", outer_);
  if (options.gated) child("gate", gate_.emplace(dim, inner_dim));
  child("dropout", dropout_);
}

Variable FeedForward::forward(const Variable& x) const {
  Scope scope = enter();
  const Variable hidden = activated(activation_, inner_, x);
  return outer_.forward(dropout_.forward(gate_ ? hidden * gate_->forward(x) : hidden));
}

}  // namespace fovea
