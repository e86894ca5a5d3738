/// The softmax with a focus (formula/focus.h) on strips: the weights of each query, and the focus carried to the next
/// one.
#pragma once
#include <cmath>
#include <utility>
#include <vector>

#include "attention/engine/cpu/strips.h"
#include "attention/formula/focus.h"

namespace fovea {

/// The focus of one head, indexed by query.
template <class T>
struct FocusOfHead {
  T* after;           ///< the focus after each query
  const T* gradient;  ///< gradient of each focus from its uses outside of the softmax; null: it has none
  T* carry;           ///< in the backward pass: gradient of the focus after this query, from the next query
};

/// Replaces the softmax on its heads. The strips of a head are processed in the order of queries, in the backward pass
/// in the opposite order.
template <class T>
class FocusStrips : public StripPart {
 public:
  explicit FocusStrips(const FocusedSoftmax& form);
  std::vector<Variable> inputs() const override;
  Tensor gradient_room(std::size_t k, const StripShape& shape) const override;

  /// Whether the keys that a query sees depend on the query before. Then strips have one row, and keys() restricts the
  /// keys of row 0 to the interval first ≤ j < second.
  bool chooses_keys() const { return std::isfinite(form_.threshold); }
  std::pair<std::int64_t, std::int64_t> keys(const StripRows<T>& rows, const FocusOfHead<T>& focus) const;

  /// Replaces logits by weights, and writes log_total[r], the logarithm of row r's normaliser, and the focus.
  void forward(const StripRows<T>& rows, T* strip, LogTotal<T>* log_total, const FocusOfHead<T>& focus) const;
  /// Replaces logits by weights, where log_total and the focus have their values from forward().
  void forward_again(const StripRows<T>& rows, T* strip, const LogTotal<T>* log_total,
                     const FocusOfHead<T>& focus) const;
  /// Replaces the gradient of the weights by that of the logits.
  void backward(const StripRows<T>& rows, const T* weights, T* gradient, const FocusOfHead<T>& focus,
                std::span<Tensor> gradients) const;

 private:
  T focus_before(const StripRows<T>& rows, std::int64_t t, const FocusOfHead<T>& focus) const;
  T gate_at(const StripRows<T>& rows, std::int64_t t) const;
  void penalize(const StripRows<T>& rows, std::int64_t r, T* row, const FocusOfHead<T>& focus) const;
  T backward_penalty(const StripRows<T>& rows, std::int64_t r, const T* gradient, const FocusOfHead<T>& focus,
                     const Tensor& gate_room) const;
  T scale() const { return static_cast<T>(1 / (2 * form_.sigma * form_.sigma)); }

  FocusedSoftmax form_;
  Tensor gate_, previous_;  ///< previous_ [B, h or 1, 1]
};

}  // namespace fovea
