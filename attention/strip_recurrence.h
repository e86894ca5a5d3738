/// What goes from query to query in strips: a number that each query's weights depend on and leave to the next.
#pragma once
#include <utility>
#include <vector>

#include "attention/strips.h"

namespace fovea {

/// One head's numbers, of query 0 on.
template <class T>
struct CarriedNumbers {
  T* numbers;         ///< what each query leaves
  const T* gradient;  ///< that of each, from those who used them beside the next query; null: none
  T* carry;           ///< in the backward pass, the gradient that the next query left to this one
};

/// Takes the place of the softmax on its heads. The strips of a head come in the order of its queries, in the backward
/// pass in the opposite one.
class StripRecurrence {
 public:
  virtual ~StripRecurrence() = default;
  virtual std::vector<Variable> inputs() const = 0;
  virtual Tensor gradient_room(std::size_t k, const StripShape& shape) const = 0;

  /// Whether which keys a query sees depends on the query before. Strips hold one query then, and first ≤ j < second
  /// are the keys of row 0 if nothing else were in the way.
  virtual bool chooses_keys() const = 0;
  virtual std::pair<std::int64_t, std::int64_t> keys(const StripRows<float>&, const CarriedNumbers<float>&) const = 0;
  virtual std::pair<std::int64_t, std::int64_t> keys(const StripRows<double>&, const CarriedNumbers<double>&) const = 0;

  /// Logits become weights, log_total[r] the logarithm of row r's normaliser; `again`: it is known, and so are the
  /// numbers.
  virtual void forward(const StripRows<float>&, float* strip, LogTotal<float>* log_total, const CarriedNumbers<float>&,
                       bool again) const = 0;
  virtual void forward(const StripRows<double>&, double* strip, LogTotal<double>* log_total,
                       const CarriedNumbers<double>&, bool again) const = 0;
  /// The weights' gradient becomes the logits'.
  virtual void backward(const StripRows<float>&, const float* weights, float* gradient, const CarriedNumbers<float>&,
                        std::span<Tensor> gradients) const = 0;
  virtual void backward(const StripRows<double>&, const double* weights, double* gradient,
                        const CarriedNumbers<double>&, std::span<Tensor> gradients) const = 0;

  /// The heads it acts on: [first_head, first_head + heads).
  std::int64_t first_head = 0, heads = 0;
};

/// Both types from one template, as StripTermOf: keys_of_row, forward_strip and backward_strip.
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
