/// Differential attention: the difference of two attention maps.
/// Ye et al. 2024, "Differential Transformer", eq. 1-3.
///
///   a_i = softmax(z_i) − λ softmax(z'_i)        z'_ij: z_ij with q'_i · k'_j / sqrt(D) in place of q_i · k_j / sqrt(D)
///   λ = exp(λ_q1 · λ_k1) − exp(λ_q2 · λ_k2) + λ_init,  λ_init = 0.8 − 0.6 exp(−0.3 l)     l: the layer, from 0;
///                                                                     both exponents are at most 40
///   o_i^h = (1 − λ_init) RMSNorm(Σ_j a_ij v_j)  with one gain vector for all heads
///
/// In the paper a layer has half as many heads as plain attention, each with values twice as wide. Here the number of
/// heads and their widths are those of plain attention, and q' = x_q W'^Q, k' = x_k W'^K are additional projections.
/// Another normaliser, such as sparsemax, replaces the softmax in both maps. Rotary positions rotate the queries and
/// keys of both maps.
#pragma once
#include <cmath>

#include "attention/method.h"
#include "nn/linear.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/reduce.h"

namespace fovea {

class DifferentialAttention : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {
      "differential", "the difference of two attention maps, then a norm of each head", "Ye et al. 2024, eq. 1-3",
      "a_i = softmax(z_i) - lambda softmax(z'_i), z'_ij = (x_q query)_i . (x_k key)_j / sqrt(D) + biases\n"
      "lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) + lambda_init\n"
      "lambda_init = 0.8 - 0.6 exp(-0.3 layer), layers from 0\n"
      "o = (1 - lambda_init) gain o / rms(o), rms(o) = sqrt(mean of o^2 + 1e-5)"};
  static void visit(OptionVisitor&, Options&) {}

  DifferentialAttention(const MethodShape& shape, const Options&)
      : head_dim_(shape.head_dim),
        lambda_init_(0.8 - 0.6 * std::exp(-0.3 * shape.layer)),
        query_(shape.model_dim, shape.heads * shape.head_dim),
        key_(shape.key_state_dim, shape.heads * shape.head_dim),
        lambda_q1_(parameter("lambda_q1", {head_dim_}, Initializer::normal(0.1))),
        lambda_k1_(parameter("lambda_k1", {head_dim_}, Initializer::normal(0.1))),
        lambda_q2_(parameter("lambda_q2", {head_dim_}, Initializer::normal(0.1))),
        lambda_k2_(parameter("lambda_k2", {head_dim_}, Initializer::normal(0.1))),
        gain_(parameter("gain", {shape.value_dim}, Initializer::ones())) {
    child("query", query_);
    child("key", key_);
  }
  bool has_independent_queries() const override { return true; }
  void change(Surroundings& surroundings) const override { surroundings.finished = true; }
  void add_layers(StateLayers& layers) const override {
    layers.of_query.push_back(&query_);
    layers.of_key.push_back(&key_);
  }
  void add_terms(const AttentionContext& in, Plan& plan) override {
    const Variable queries = in.project(query_, in.query_states);
    const Variable keys = in.all_keys(&key_, [&] { return in.project(key_, in.key_states); });
    // λ may grow without bound, but from e^40 on the norm of each head hides it, and e^89 would be infinite in f32
    const Variable most = constant_like(lambda_q1_, greatest_exponent);
    auto factor = [&](const Variable& q, const Variable& k) { return exp(minimum(sum(q * k, {0}, true), most)); };
    const Variable lambda = factor(lambda_q1_, lambda_k1_) - factor(lambda_q2_, lambda_k2_) + lambda_init_;
    plan.second_maps.push_back(
        {{.queries = split_heads(queries, head_dim_), .keys = split_heads(keys, head_dim_), .scale = in.scale()},
         {Per::head, -lambda},
         {},
         this});
    plan.quantity("lambda", lambda);
  }
  Variable finish(const Variable& heads, const AttentionContext&) override {
    // Heads with elements above 1e15 are divided by a constant first, so that their squares do not overflow in f32.
    const Tensor one = constant_like(heads, 1);
    const Tensor largest = maximum_over(map(Abs{}, heads.value()), {-1}, true);
    const Variable shrink(map(Divide{}, one, map(Maximum{}, one, map(Affine{1e-15, 0}, largest))));
    const Variable small = heads * shrink;
    const Variable rms = sqrt(mean(square(small), {-1}, true) + square(shrink) * 1e-5);
    return small / rms * (gain_ * (1 - lambda_init_));
  }

 private:
  static constexpr double greatest_exponent = 40;

  std::int64_t head_dim_;
  double lambda_init_;
  Linear query_, key_;                                      // W'^Q [d, h D], W'^K [d, h D]
  Variable lambda_q1_, lambda_k1_, lambda_q2_, lambda_k2_;  // [D]
  Variable gain_;                                           // [D_v]
};

}  // namespace fovea
