/// The softmax with a focus of flexible attention, in plain differentiable operations.
/// Shu & Nakayama 2017, "An Empirical Study of Adequate Vision Span for Attention-Based Neural Machine Translation",
/// eq. 5-9.
///
///     z_ts = s_ts − g_t (s − p_{t−1})² / (2 sigma²)        g_t: the gate, p: the focus
///     a_t = softmax_s(z_t)
///     p_t = Σ_s a_ts s
///
/// Query t needs the focus p_{t−1} that query t − 1 left, so queries are computed in order.
#pragma once
#include <cstdint>

#include "attention/context.h"
#include "attention/formula/focus_window.h"
#include "attention/formula/position.h"

namespace fovea {

/// Part of a plan: replaces the softmax of these heads by one with a penalty on the distance from the focus.
struct FocusedSoftmax {
  double sigma;                        ///< in tokens
  double threshold;                    ///< tau: only keys whose penalty is smaller are seen; inf: all keys
  double first_focus = 0;              ///< p before the first query if `previous` is undefined, in tokens
  bool opens_without_penalty = false;  ///< if `previous` is undefined, the first query has no penalty
  bool detach = false;                 ///< gradients do not flow through the focus
  Variable gate;                       ///< g, [B, h, I]
  Variable previous = {};              ///< p before the first query, [B, h or 1]; undefined: first_focus
  const void* owner = nullptr;         ///< identifies the method in a decoder's memory, which keeps the focus
  HeadRange heads = {};

  /// Whether query t of this call has a penalty.
  bool has_focus(std::int64_t t) const { return t > 0 || previous.defined() || !opens_without_penalty; }
};

/// The penalty of one logit, for engines that read the focus before each query as a capture.
struct FocusPenalty {
  static constexpr const char* name = "focus_penalty";
  double sigma;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T> at, T gate, T focus) const {
    const T distance = at.key - focus;
    return z - gate * distance * distance * T(1 / (2 * sigma * sigma));
  }
};

/// The weights a and, for each query t, the focus p_t after it.
struct FocusedWeights {
  Variable weights;  ///< [B, h, I, J]
  Variable focus;    ///< [B, h, I]
};
/// Computes weights and focus from `logits` [B, h, I, J] after all biases. `allow` is bool, broadcasts to the logits
/// and is false for keys that a query does not see; undefined: every query sees every key. `in` is the context
/// restricted to these heads. Throws Error for logits with a dimension of values (fine_grained).
FocusedWeights focused_softmax(const FocusedSoftmax& form, const Variable& logits, const Tensor& allow,
                               const AttentionContext& in);

/// First and last key of each query's window, [B, h, I, 2] in f64, for a trace. `focus` [B, h, I] is the focus after
/// each query.
Tensor focus_windows(const FocusedSoftmax& form, const Tensor& focus, const AttentionContext& in);
/// The penalty g_t (s − p_{t−1})² / (2 sigma²) of each pair, [B, h, I, J], for a trace. `focus` as above.
Tensor focus_penalty(const FocusedSoftmax& form, const Tensor& focus, const AttentionContext& in);

}  // namespace fovea
