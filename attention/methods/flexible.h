/// Flexible attention: a penalty on the distance from the focus of the previous step. The decoder predicts the
/// penalty's strength, the gate.
/// Shu & Nakayama 2017, "An Empirical Study of Adequate Vision Span for Attention-Based Neural Machine Translation",
/// eq. 5-9.
///
///     g_t = sigmoid(v · tanh([q_t; i_t] W) + b)            q_t: decoder state, i_t: decoder input (step_input)
///     z_ts = s_ts − g_t (s − p_{t−1})² / (2 sigma²)         s_ts: any score
///     a_t = softmax_s(z_t)
///     p_t = Σ_s a_ts s                                      p: the focus, the mean position of the weights
///
/// At the start v is small and b = -2, so that every gate is near 0.12, and the penalty reaches 1 at 4 sigma from the
/// focus. W and v learn at 1 / sqrt(n) of the rate (NamedParameter::rate), where n numbers are read for each output.
///
/// Each step reads the focus of the step before. In step-by-step decoding the focus before the first query comes from
/// AttentionInput::previous_focus or from the decoder's memory. A trace has the focus after each query as the quantity
/// "focus". Gradients flow through the focus, unless detach_focus is set.
///
/// Fine-tuning towards narrow windows (eq. 9): with beta > 0, training adds −beta times the mean gate of a sentence to
/// the AuxiliaryLosses of its caller. Large gates let a threshold skip more keys.
///
/// In evaluation, a threshold tau restricts each query to keys with g (s − p)² / (2 sigma²) < tau (focus_window() in
/// formula/focus.h). The fused engine does not compute the scores of the other keys.
#pragma once
#include <limits>

#include "attention/method.h"

namespace fovea {

class FlexibleAttention : public LocalnessMethod {
 public:
  enum class FirstFocus { first_word, before_first_word, none };
  struct Options {
    double sigma = 1.5;                                          ///< in tokens
    double threshold = std::numeric_limits<double>::infinity();  ///< tau, used in evaluation only; inf: all keys
    FirstFocus p_init =
        FirstFocus::first_word;  ///< p before the first step: 0, −1, or none, which is no penalty in the first step
    bool detach_focus = false;   ///< gradients do not flow through p
    std::int64_t hidden = 0;     ///< a, the width of the gate's hidden layer; 0: the width of the queries
    double beta = 0;             ///< in training, the loss is lowered by beta times the mean gate (eq. 9)
  };
  static constexpr MethodCard card = {
      "flexible", "a penalty on the distance from the previous step's focus, with a predicted strength",
      "Shu & Nakayama 2017, eq. 5-9",
      "z_ts = s_ts - g_t (s - p_(t-1))^2 / (2 sigma^2), p_t = sum_s a_ts s\n"
      "g_t = sigmoid(gate_vector . tanh([q_t; i_t] gate_projection) + gate_bias), i_t: step_input\n"
      "in evaluation only keys whose penalty is below threshold are seen",
      "step_input, previous_focus"};
  static void visit(OptionVisitor& visitor, Options& options);

  FlexibleAttention(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Variable gate(const AttentionContext& in, Plan& plan) const;  ///< [B, H, I]

  Options options_;
  std::int64_t step_dim_;
  Variable gate_projection_, gate_vector_, gate_bias_;  // W [d_q + d_e, a], v [a], b; on several heads [H, ...]
};

}  // namespace fovea
