#include "attention/engine/cpu/focus_strips.h"

#include <cmath>
#include <limits>

namespace fovea {

namespace {

template <class T>
Vec<T> key_numbers(std::int64_t j) {
  return Vec<T>(static_cast<T>(j)) + lane_numbers<T>();
}

}  // namespace

template <class T>
FocusStrips<T>::FocusStrips(const FocusedSoftmax& form) : form_(form), gate_(form.gate.value().contiguous()) {
  if (form_.previous.defined()) previous_ = form_.previous.value().unsqueeze(-1);
}

template <class T>
std::vector<Variable> FocusStrips<T>::inputs() const {
  if (!form_.previous.defined()) return {form_.gate};
  return {form_.gate, form_.previous};
}

template <class T>
Tensor FocusStrips<T>::gradient_room(std::size_t k, const StripShape& s) const {
  return Tensor::zeros(k == 0 ? Shape{s.sentences, s.heads, s.queries} : Shape{s.sentences, s.heads}, gate_.dtype());
}

template <class T>
std::pair<std::int64_t, std::int64_t> FocusStrips<T>::keys(const StripRows<T>& rows,
                                                           const FocusOfHead<T>& focus) const {
  const std::int64_t t = rows.first_query;
  const double threshold = form_.has_focus(t) ? form_.threshold : std::numeric_limits<double>::infinity();
  const FocusWindow window =
      focus_window(static_cast<double>(focus_before(rows, t, focus)), static_cast<double>(gate_at(rows, t)),
                   form_.sigma, threshold, rows.visible_end[0]);
  return {window.first, window.last + 1};
}

template <class T>
void FocusStrips<T>::forward(const StripRows<T>& rows, T* strip, LogTotal<T>* log_total,
                             const FocusOfHead<T>& focus) const {
  for (std::int64_t r = 0; r < rows.count; ++r, strip += rows.stride) {
    const std::int64_t first = rows.first[r], end = rows.end[r];
    penalize(rows, r, strip, focus);
    softmax_rows(rows.keys_of_row(r), strip, -std::numeric_limits<T>::infinity(), log_total + r);
    focus.after[rows.first_query + r] = sum_of_vectors<T>(end - first, [&](std::int64_t j, auto count) {
      return filled(load_vector(strip + first + j, count) * key_numbers<T>(first + j), count, T(0));
    });
  }
}

template <class T>
void FocusStrips<T>::forward_again(const StripRows<T>& rows, T* strip, const LogTotal<T>* log_total,
                                   const FocusOfHead<T>& focus) const {
  for (std::int64_t r = 0; r < rows.count; ++r) penalize(rows, r, strip + r * rows.stride, focus);
  softmax_rows_again(rows.keys_of_rows(), strip, log_total);
}

template <class T>
void FocusStrips<T>::backward(const StripRows<T>& rows, const T* weights, T* gradient, const FocusOfHead<T>& focus,
                              std::span<Tensor> rooms) const {
  for (std::int64_t r = rows.count - 1; r >= 0; --r) {
    const std::int64_t t = rows.first_query + r;
    const T focus_gradient = *focus.carry + (focus.gradient ? focus.gradient[t] : T(0));
    T* row = gradient + r * rows.stride;
    for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
      store_vector(load_vector(row + j, count) + Vec<T>(focus_gradient) * key_numbers<T>(j), row + j, count);
    });
    softmax_rows_backward<T>(rows.keys_of_row(r), weights + r * rows.stride, row, nullptr);
    *focus.carry = backward_penalty(rows, r, row, focus, rooms[0]);
    if (t == 0 && rooms.size() > 1 && rooms[1].defined())
      *(rooms[1].mutable_data<T>() + rows.sentence * rooms[1].shape()[1] + rows.head) = *focus.carry;
  }
}

/// The focus before query t.
template <class T>
T FocusStrips<T>::focus_before(const StripRows<T>& rows, std::int64_t t, const FocusOfHead<T>& focus) const {
  if (t > 0) return focus.after[t - 1];
  return previous_.defined() ? previous_.data<T>()[broadcast_offset(previous_, rows.sentence, rows.head, 0)]
                             : static_cast<T>(form_.first_focus);
}

template <class T>
T FocusStrips<T>::gate_at(const StripRows<T>& rows, std::int64_t t) const {
  return gate_.data<T>()[broadcast_offset(gate_, rows.sentence, rows.head, t)];
}

/// Subtracts the penalty: z − g (s − p)² / (2 sigma²), in place in row r.
template <class T>
void FocusStrips<T>::penalize(const StripRows<T>& rows, std::int64_t r, T* row, const FocusOfHead<T>& focus) const {
  const std::int64_t t = rows.first_query + r;
  if (!form_.has_focus(t)) return;
  const Vec<T> center(focus_before(rows, t, focus)), strength(gate_at(rows, t) * scale());
  for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
    const Vec<T> distance = key_numbers<T>(j) - center;
    store_vector(load_vector(row + j, count) - strength * distance * distance, row + j, count);
  });
}

/// The penalty's backward pass for row r, given the gradient of its logits. Writes the gradient of the gate. Returns
/// that of the focus before the query: 0 if there is none, or if it is detached.
template <class T>
T FocusStrips<T>::backward_penalty(const StripRows<T>& rows, std::int64_t r, const T* gradient,
                                   const FocusOfHead<T>& focus, const Tensor& gate_room) const {
  const std::int64_t t = rows.first_query + r, first = rows.first[r], size = rows.end[r] - first;
  if (!form_.has_focus(t)) return 0;
  const Vec<T> center(focus_before(rows, t, focus));
  auto moment = [&](auto power) {
    return sum_of_vectors<T>(size, [&](std::int64_t j, auto count) {
      const Vec<T> distance = key_numbers<T>(first + j) - center, g = load_vector(gradient + first + j, count);
      Vec<T> weighted = g * distance;
      if constexpr (power == 2) weighted *= distance;
      return filled(weighted, count, T(0));
    });
  };
  if (gate_room.defined())
    gate_room.mutable_data<T>()[broadcast_offset(gate_room, rows.sentence, rows.head, t)] =
        -scale() * moment(std::integral_constant<int, 2>{});
  if (form_.detach) return 0;
  return 2 * scale() * gate_at(rows, t) * moment(std::integral_constant<int, 1>{});
}

template class FocusStrips<float>;
template class FocusStrips<double>;

}  // namespace fovea
