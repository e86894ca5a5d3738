/// The softmax with a focus (formula/focus.h) on strips: the weights of each query, and the focus carried to the next
/// one.
#pragma once
#include "attention/engine/cpu/softmax_strips.h"
#include "attention/engine/seen_keys.h"
#include "attention/formula/focus.h"

namespace fovea {

/// Replaces the softmax on its heads. The strips of a head are processed in the order of queries, in the backward pass
/// in the opposite order.
template <class T>
class FocusStrips : public StripPart {
 public:
  FocusStrips(const FocusedSoftmax& form, const StripShape& s) : form_(form), gate_(form.gate.value().contiguous()) {
    inputs = {{form.gate, {s.sentences, s.heads, s.queries}}};
    if (!form.previous.defined()) return;
    inputs.push_back({form.previous, {s.sentences, s.heads}});
    previous_ = form.previous.value().unsqueeze(-1);
  }

  /// Whether the keys that a query sees depend on the query before. Then strips have one row, and keys() restricts the
  /// keys of row 0 to an interval.
  bool chooses_keys() const { return std::isfinite(form_.threshold); }
  Interval keys(const StripRows<T>& rows) const {
    const std::int64_t t = rows.first_query;
    const FocusWindow window =
        focus_window(static_cast<double>(focus_before(rows, t)), static_cast<double>(gate_at(rows, t)), form_.sigma,
                     form_.has_focus(t) ? form_.threshold : infinity<double>, rows.visible_end[0]);
    return {window.first, window.last + 1};
  }

  void start(const StripItem&, Workspace&) override { carry_ = 0; }

  /// Replaces logits by weights, and writes log_total[r], the logarithm of row r's normaliser, and the focus. Calls
  /// look(row, logits) for each row, whose logits have their penalty then.
  template <class Look>
  void forward(const StripRows<T>& rows, T* strip, LogTotal<T>* log_total, Look&& look) const {
    for (std::int64_t r = 0; r < rows.count; ++r, strip += rows.stride) {
      const StripRows<T> row = rows.row(r);
      const std::int64_t first = rows.first[r];
      penalize(rows, r, strip);
      look(row, strip);
      softmax_rows<T>({&row, 1}, strip, -infinity<T>, log_total + r);
      after[rows.first_query + r] = sum_of_vectors<T>(rows.end[r] - first, [&](std::int64_t j, auto count) {
        return filled(load_vector(strip + first + j, count) * key_numbers<T>(first + j), count, T(0));
      });
    }
  }
  /// Replaces logits by weights, where log_total and the focus have their values from forward().
  void forward_again(const StripRows<T>& rows, T* strip, const LogTotal<T>* log_total) const {
    for (std::int64_t r = 0; r < rows.count; ++r) penalize(rows, r, strip + r * rows.stride);
    softmax_rows_again<T>({&rows, 1}, strip, log_total);
  }
  /// Replaces the gradient of the weights by that of the logits.
  void backward(const StripRows<T>& rows, const T* weights, T* gradient) {
    for (std::int64_t r = rows.count - 1; r >= 0; --r) {
      const StripRows<T> own = rows.row(r);
      const std::int64_t t = rows.first_query + r;
      const Vec<T> focus_gradient(carry_ + (after_gradient ? after_gradient[t] : T(0)));
      T* row = gradient + r * rows.stride;
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(load_vector(row + j, count) + focus_gradient * key_numbers<T>(j), row + j, count);
      });
      softmax_rows_backward<T>({&own, 1}, weights + r * rows.stride, row, nullptr);
      carry_ = backward_penalty(rows, r, row);
      if (t == 0 && gradients.size() > 1 && gradients[1].defined())
        gradients[1].template mutable_data<T>()[rows.sentence * gradients[1].size(1) + rows.head] = carry_;
    }
  }

  T* after = nullptr;  ///< [I] of the current head: the focus p after each query
  /// [I] of the current head: the gradient that each focus gets as a result of the call; null if it gets none.
  const T* after_gradient = nullptr;

 private:
  T scale() const { return static_cast<T>(1 / (2 * form_.sigma * form_.sigma)); }
  /// The focus before query t.
  T focus_before(const StripRows<T>& rows, std::int64_t t) const {
    if (t > 0) return after[t - 1];
    return previous_.defined() ? previous_.data<T>()[broadcast_offset(previous_, rows.sentence, rows.head, 0)]
                               : static_cast<T>(form_.first_focus);
  }
  T gate_at(const StripRows<T>& rows, std::int64_t t) const {
    return gate_.data<T>()[broadcast_offset(gate_, rows.sentence, rows.head, t)];
  }

  /// Subtracts the penalty: z − g (s − p)² / (2 sigma²), in place in row r.
  void penalize(const StripRows<T>& rows, std::int64_t r, T* row) const {
    const std::int64_t t = rows.first_query + r;
    if (!form_.has_focus(t)) return;
    const Vec<T> center(focus_before(rows, t)), strength(gate_at(rows, t) * scale());
    for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
      const Vec<T> distance = key_numbers<T>(j) - center;
      store_vector(load_vector(row + j, count) - strength * distance * distance, row + j, count);
    });
  }

  /// The penalty's backward pass for row r, given the gradient of its logits. Writes the gradient of the gate. Returns
  /// that of the focus before the query: 0 if there is none, or if it is detached.
  T backward_penalty(const StripRows<T>& rows, std::int64_t r, const T* gradient) const {
    const std::int64_t t = rows.first_query + r, first = rows.first[r];
    if (!form_.has_focus(t)) return 0;
    const Vec<T> center(focus_before(rows, t));
    auto moment = [&](auto power) {
      return sum_of_vectors<T>(rows.end[r] - first, [&](std::int64_t j, auto count) {
        const Vec<T> distance = key_numbers<T>(first + j) - center;
        Vec<T> weighted = load_vector(gradient + first + j, count) * distance;
        if constexpr (power == 2) weighted *= distance;
        return filled(weighted, count, T(0));
      });
    };
    if (const Tensor& buffer = gradients[0]; buffer.defined())
      buffer.mutable_data<T>()[broadcast_offset(buffer, rows.sentence, rows.head, t)] =
          -scale() * moment(std::integral_constant<int, 2>{});
    if (form_.detach) return 0;
    return 2 * scale() * gate_at(rows, t) * moment(std::integral_constant<int, 1>{});
  }

  FocusedSoftmax form_;
  Tensor gate_, previous_;  ///< previous_ [B, h or 1, 1]
  T carry_ = 0;             ///< in the backward pass: gradient of the focus after this query, from the next query
};

}  // namespace fovea
