/// The focus of flexible attention, in plain operations.
/// Shu & Nakayama 2017, "An Empirical Study of Adequate Vision Span for Attention-Based Neural Machine Translation",
/// eq. 5-9.
///
///     z_ts = s_ts − g_t (s − p_{t−1})² / (2 sigma²)        g_t: the gate, p: the focus
///     a_t = softmax_s(z_t)
///     p_t = Σ_s a_ts s
///
/// Queries are computed in order, because each one needs the focus after the query before.
#pragma once
#include <cstdint>

#include "attention/context.h"

namespace fovea {

/// A softmax with a penalty on the distance from the focus, in place of the softmax of these heads.
struct FocusedSoftmax {
  double sigma;                        ///< in tokens
  double threshold;                    ///< tau: only keys with a smaller penalty are seen; inf: all
  double first_focus = 0;              ///< p before the first query where `previous` is undefined
  bool opens_without_penalty = false;  ///< where `previous` is undefined, the first query has no penalty
  bool detach = false;                 ///< no gradient through the focus
  Variable gate;                       ///< g, [B, h, I]
  Variable previous = {};              ///< p before the first query, [B, h or 1]; undefined: none
  const void* owner = nullptr;         ///< the method, under which the decoder's memory keeps the focus
  HeadRange heads = {};

  /// Whether query t of this call has a penalty.
  bool has_focus(std::int64_t t) const { return t > 0 || previous.defined() || !opens_without_penalty; }
};

/// The keys first ≤ s ≤ last with gate (s − focus)² / (2 sigma²) < threshold, in a sentence of `length` keys. If there
/// are none, the key nearest to the focus. For length 0 the window is empty (last < first).
struct FocusWindow {
  std::int64_t first, last;
};
FocusWindow focus_window(double focus, double gate, double sigma, double threshold, std::int64_t length);

/// The weights a and the focus after each query.
struct FocusedWeights {
  Variable weights;  ///< [B, h, I, J]
  Variable focus;    ///< [B, h, I]
};
/// `logits` [B, h, I, J] after all biases; `allow` is bool, broadcasts to them and is false for keys that a query does
/// not see; undefined: all are seen. `in` is the context of these heads.
FocusedWeights focused_softmax(const FocusedSoftmax& form, const Variable& logits, const Tensor& allow,
                               const AttentionContext& in);

/// First and last key of each query's window, [B, h, I, 2], from the focus after each query [B, h, I].
Tensor focus_windows(const FocusedSoftmax& form, const Tensor& focus, const AttentionContext& in);

}  // namespace fovea
