/// Recurrences on strips: replacements for the softmax that carry one number per head from each query to the next.
#pragma once
#include <utility>
#include <vector>

#include "attention/engine/cpu/strips.h"

namespace fovea {

/// The carried numbers of one head, indexed by query.
template <class T>
struct CarriedNumbers {
  T* numbers;         ///< the number carried out of each query
  const T* gradient;  ///< gradient of each number from its uses outside of the recurrence; null: it has none
  T* carry;           ///< in the backward pass: gradient of the number carried out of this query, from the next query
};

/// Replaces the softmax on its heads. The strips of a head are processed in the order of queries, in the backward pass
/// in the opposite order. Members that StripTerm has too mean the same.
class StripRecurrence {
 public:
  virtual ~StripRecurrence() = default;
  virtual std::vector<Variable> inputs() const = 0;
  virtual Tensor gradient_room(std::size_t k, const StripShape& shape) const = 0;

  /// Whether the keys that a query sees depend on the query before. Then strips have one row, and keys() restricts the
  /// keys of row 0 to the interval first ≤ j < second.
  virtual bool chooses_keys() const = 0;
  virtual std::pair<std::int64_t, std::int64_t> keys(const StripRows<float>&, const CarriedNumbers<float>&) const = 0;
  virtual std::pair<std::int64_t, std::int64_t> keys(const StripRows<double>&, const CarriedNumbers<double>&) const = 0;

  /// Replaces logits by weights, and writes log_total[r], the logarithm of row r's normaliser, and the carried numbers.
  /// With `again` these have their values from the forward pass already.
  virtual void forward(const StripRows<float>&, float* strip, LogTotal<float>* log_total, const CarriedNumbers<float>&,
                       bool again) const = 0;
  virtual void forward(const StripRows<double>&, double* strip, LogTotal<double>* log_total,
                       const CarriedNumbers<double>&, bool again) const = 0;
  /// Replaces the gradient of the weights by that of the logits.
  virtual void backward(const StripRows<float>&, const float* weights, float* gradient, const CarriedNumbers<float>&,
                        std::span<Tensor> gradients) const = 0;
  virtual void backward(const StripRows<double>&, const double* weights, double* gradient,
                        const CarriedNumbers<double>&, std::span<Tensor> gradients) const = 0;

  /// The recurrence acts on the heads first_head ≤ h < first_head + heads.
  std::int64_t first_head = 0, heads = 0;
};

/// Implements StripRecurrence for both types by the member templates keys_of_row<T>, forward_strip<T> and
/// backward_strip<T> of Recurrence.
template <class Recurrence>
class StripRecurrenceOf : public StripRecurrence {
 public:
  std::pair<std::int64_t, std::int64_t> keys(const StripRows<float>& rows,
                                             const CarriedNumbers<float>& carried) const override {
    return self().template keys_of_row<float>(rows, carried);
  }
  std::pair<std::int64_t, std::int64_t> keys(const StripRows<double>& rows,
                                             const CarriedNumbers<double>& carried) const override {
    return self().template keys_of_row<double>(rows, carried);
  }
  void forward(const StripRows<float>& rows, float* strip, LogTotal<float>* log_total,
               const CarriedNumbers<float>& carried, bool again) const override {
    self().template forward_strip<float>(rows, strip, log_total, carried, again);
  }
  void forward(const StripRows<double>& rows, double* strip, LogTotal<double>* log_total,
               const CarriedNumbers<double>& carried, bool again) const override {
    self().template forward_strip<double>(rows, strip, log_total, carried, again);
  }
  void backward(const StripRows<float>& rows, const float* weights, float* gradient,
                const CarriedNumbers<float>& carried, std::span<Tensor> gradients) const override {
    self().template backward_strip<float>(rows, weights, gradient, carried, gradients);
  }
  void backward(const StripRows<double>& rows, const double* weights, double* gradient,
                const CarriedNumbers<double>& carried, std::span<Tensor> gradients) const override {
    self().template backward_strip<double>(rows, weights, gradient, carried, gradients);
  }

 private:
  const Recurrence& self() const { return static_cast<const Recurrence&>(*this); }
};

}  // namespace fovea
