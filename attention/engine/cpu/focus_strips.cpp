#include "attention/engine/cpu/focus_strips.h"

#include <cmath>
#include <limits>

#include "attention/methods/flexible.h"

namespace fovea {

namespace {

class FocusStrips : public StripRecurrenceOf<FocusStrips> {
 public:
  explicit FocusStrips(const FocusForm& form) : form_(form), gate_(form.gate.value().contiguous()) {
    if (form_.previous.defined()) previous_ = form_.previous.value().unsqueeze(-1);
  }

  std::vector<Variable> inputs() const override {
    if (!form_.previous.defined()) return {form_.gate};
    return {form_.gate, form_.previous};
  }
  Tensor gradient_room(std::size_t k, const StripShape& s) const override {
    return Tensor::zeros(k == 0 ? Shape{s.sentences, s.heads, s.queries} : Shape{s.sentences, s.heads}, gate_.dtype());
  }

  bool chooses_keys() const override { return std::isfinite(form_.threshold); }

  template <class T>
  std::pair<std::int64_t, std::int64_t> keys_of_row(const StripRows<T>& rows, const CarriedNumbers<T>& carried) const {
    FocusWindow window = window_of(rows, 0, carried);
    return {window.first, window.last + 1};
  }

  template <class T>
  void forward_strip(const StripRows<T>& rows, T* strip, LogTotal<T>* log_total, const CarriedNumbers<T>& carried,
                     bool again) const {
    for (std::int64_t r = 0; r < rows.count; ++r, strip += rows.stride) {
      const std::int64_t first = rows.first[r], end = rows.end[r];
      penalize(rows, r, strip, carried);
      if (again) {
        softmax_rows_again(rows.keys_of_row(r), strip, log_total + r);
        continue;
      }
      store_window(rows, r, carried);
      softmax_rows(rows.keys_of_row(r), strip, -std::numeric_limits<T>::infinity(), log_total + r);
      carried.numbers[rows.first_query + r] = sum_of_vectors<T>(end - first, [&](std::int64_t j, auto count) {
        return filled(load_vector(strip + first + j, count) * key_numbers<T>(first + j), count, T(0));
      });
    }
  }

  template <class T>
  void backward_strip(const StripRows<T>& rows, const T* weights, T* gradient, const CarriedNumbers<T>& carried,
                      std::span<Tensor> rooms) const {
    for (std::int64_t r = rows.count - 1; r >= 0; --r) {
      const std::int64_t t = rows.first_query + r;
      const T focus_gradient = *carried.carry + (carried.gradient ? carried.gradient[t] : T(0));
      T* row = gradient + r * rows.stride;
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(load_vector(row + j, count) + Vec<T>(focus_gradient) * key_numbers<T>(j), row + j, count);
      });
      softmax_rows_backward<T>(rows.keys_of_row(r), weights + r * rows.stride, row, nullptr);
      *carried.carry = backward_penalty(rows, r, row, carried, rooms[0]);
      if (t == 0 && rooms.size() > 1 && rooms[1].defined())
        *(rooms[1].mutable_data<T>() + rows.sentence * rooms[1].shape()[1] + rows.head) = *carried.carry;
    }
  }

 private:
  template <class T>
  static Vec<T> key_numbers(std::int64_t j) {
    return Vec<T>(static_cast<T>(j)) + lane_numbers<T>();
  }

  bool has_focus(std::int64_t t) const { return t > 0 || previous_.defined() || !form_.open; }
  /// The focus before query t.
  template <class T>
  T focus_before(const StripRows<T>& rows, std::int64_t t, const CarriedNumbers<T>& carried) const {
    if (t > 0) return carried.numbers[t - 1];
    return previous_.defined() ? previous_.data<T>()[broadcast_offset(previous_, rows.sentence, rows.head, 0)]
                               : static_cast<T>(form_.first);
  }
  template <class T>
  T gate_at(const StripRows<T>& rows, std::int64_t t) const {
    return gate_.data<T>()[broadcast_offset(gate_, rows.sentence, rows.head, t)];
  }

  template <class T>
  FocusWindow window_of(const StripRows<T>& rows, std::int64_t r, const CarriedNumbers<T>& carried) const {
    const std::int64_t t = rows.first_query + r;
    const double threshold = has_focus(t) ? form_.threshold : std::numeric_limits<double>::infinity();
    return focus_window(focus_before(rows, t, carried), gate_at(rows, t), form_.sigma, threshold, rows.visible_end[r]);
  }
  template <class T>
  void store_window(const StripRows<T>& rows, std::int64_t r, const CarriedNumbers<T>& carried) const {
    FocusWindow window = window_of(rows, r, carried);
    const std::int64_t step = rows.first_query + r, B = gate_.size(0), H = gate_.size(1);
    double* to = form_.windows->data() + 2 * ((step * B + rows.sentence) * H + rows.head);
    to[0] = static_cast<double>(window.first);
    to[1] = static_cast<double>(window.last);
  }

  /// Subtracts the penalty: z − g (s − p)² / (2 sigma²), in place in row r.
  template <class T>
  void penalize(const StripRows<T>& rows, std::int64_t r, T* row, const CarriedNumbers<T>& carried) const {
    const std::int64_t t = rows.first_query + r;
    if (!has_focus(t)) return;
    const Vec<T> focus(focus_before(rows, t, carried)), strength(gate_at(rows, t) * scale<T>());
    for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
      Vec<T> distance = key_numbers<T>(j) - focus;
      store_vector(load_vector(row + j, count) - strength * distance * distance, row + j, count);
    });
  }

  /// The penalty's backward pass for row r, given the gradient of its logits. Writes the gradient of the gate. Returns
  /// that of the focus before the query: 0 if there is none, or if it is detached.
  template <class T>
  T backward_penalty(const StripRows<T>& rows, std::int64_t r, const T* gradient, const CarriedNumbers<T>& carried,
                     const Tensor& gate_room) const {
    const std::int64_t t = rows.first_query + r, first = rows.first[r], size = rows.end[r] - first;
    if (!has_focus(t)) return 0;
    const Vec<T> focus(focus_before(rows, t, carried));
    auto moment = [&](auto power) {
      return sum_of_vectors<T>(size, [&](std::int64_t j, auto count) {
        Vec<T> distance = key_numbers<T>(first + j) - focus, g = load_vector(gradient + first + j, count);
        Vec<T> weighted = g * distance;
        if constexpr (power == 2) weighted *= distance;
        return filled(weighted, count, T(0));
      });
    };
    if (gate_room.defined())
      gate_room.mutable_data<T>()[broadcast_offset(gate_room, rows.sentence, rows.head, t)] =
          -scale<T>() * moment(std::integral_constant<int, 2>{});
    if (form_.detach) return 0;
    return 2 * scale<T>() * gate_at(rows, t) * moment(std::integral_constant<int, 1>{});
  }

  template <class T>
  T scale() const {
    return static_cast<T>(1 / (2 * form_.sigma * form_.sigma));
  }

  FocusForm form_;
  Tensor gate_, previous_;  ///< previous_ [B, H or 1, 1]
};

}  // namespace

std::unique_ptr<StripRecurrence> focus_strips(const FocusForm& form) { return std::make_unique<FocusStrips>(form); }

}  // namespace fovea
