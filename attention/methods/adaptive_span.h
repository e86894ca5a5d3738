/// Adaptive attention span: each head learns the width of its window.
/// Sukhbaatar et al. 2019, "Adaptive Attention Span in Transformers", section 2.2.
///
///   a_ij = m(|i − j|) exp(s_ij) / Σ_k m(|i − k|) exp(s_ik),   m(x) = min(max((R + z_h − x) / R, 0), 1)
///
/// R is the option `ramp`, and the span is z_h = longest · sigmoid(span_h), in tokens. (The paper learns z itself and
/// clips it to [0, longest] after each update. The sigmoid needs no clipping, and a span near 0 still has a gradient.)
/// With from_query the span depends on the query: z_ih = longest · sigmoid(x_i v_h + span_h), where x_i is the input of
/// the sub-layer.
///
/// At the start span_h = -4, a span of 0.018 longest, and v is small; v learns at 1 / sqrt(d) of the rate
/// (NamedParameter::rate).
///
/// Keys at distances of R + z or more have m = 0 and lie outside of a hard window; the other keys have the bias log m.
/// With after_softmax, w_ij = m(|i − j|) softmax(s)_ij, without normalising again.
#pragma once
#include "attention/method.h"

namespace fovea {

/// min((reach − |i − j|) / R, 1), where reach = R + z. At most 0 outside of the window.
template <class T>
FOVEA_HD FOVEA_INLINE T span_mask(Position<T> at, T reach, double ramp) {
  using S = typename ScalarOf<T>::type;
  T mask = (reach - abs(at.key - at.query)) / T(S(ramp));
  return select(mask > T(1), T(1), mask);  // a NaN stays
}

/// The bias: logit + log m.
struct SpanBias {
  static constexpr const char* name = "span_bias";
  double ramp;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T logit, Position<T> at, T reach) const {
    T mask = span_mask(at, reach, ramp);
    return logit + log(select(mask <= T(0), T(1), mask));  // outside of the hard window any finite number is correct
  }
};

/// The window: weight · m.
struct SpanWindow {
  static constexpr const char* name = "span_window";
  double ramp;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T weight, Position<T> at, T reach) const {
    T mask = span_mask(at, reach, ramp);
    return weight * select(mask <= T(0), T(0), mask);
  }
};

class AdaptiveSpan : public LocalnessMethod {
 public:
  struct Options {
    double ramp = 32, longest = 1024;  ///< in tokens
    bool after_softmax = false;
    bool from_query = false;  ///< the span depends on the query: the paper's dynamic attention span
    double penalty = 0;       ///< lambda: in training, the loss grows by penalty times the mean span, in tokens (eq. 8)
  };
  static constexpr MethodCard card = {
      "adaptive_span", "each head learns the width of its window", "Sukhbaatar et al. 2019, section 2.2",
      "a_ij = m_ij exp(s_ij) / sum_k m_ik exp(s_ik); after_softmax: w_ij = m_ij softmax_j(s_ij)\n"
      "m_ij = clamp((ramp + z_h - |i - j|) / ramp, 0, 1), z_h = longest sigmoid(span_h)\n"
      "from_query: z_ih = longest sigmoid(x_i predictor_h + span_h), x_i: the input"};
  static void visit(OptionVisitor& visitor, Options& options);

  AdaptiveSpan(const MethodShape& shape, const Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 private:
  Options options_;
  Variable span_;       // [H]
  Variable predictor_;  // v [d, H], with from_query
};

}  // namespace fovea
