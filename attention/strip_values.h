/// Values in strips: what makes the output of weights, and brings its gradient back.
#pragma once
#include <memory>

#include "attention/strip_score.h"

namespace fovea {

/// A thread's work on the values: one item after the other, and their strips.
template <class T>
class ValueWorker {
 public:
  virtual ~ValueWorker() = default;
  /// `space` stays taken until finish().
  virtual void start(const StripItem& item, Workspace& space) = 0;
  /// out_i = Σ_j w_ij v_j; the second piece of a strip adds
  virtual void weighted_sum(const StripRows<T>& rows, const T* weights, MatrixView<T> out) = 0;
  /// dv_j += w_ij g_i; also called for rows that see no key
  virtual void backward_of_values(const StripRows<T>& rows, const T* weights, MatrixView<const T> g,
                                  Workspace& space) = 0;
  /// dw_ij = g_i · v_j, over the hull
  virtual void backward_of_weights(const StripRows<T>& rows, MatrixView<const T> g, T* gradient) = 0;
  virtual void finish() {}
};

/// values [B, H, J, D], `planes` 1, or D where each dimension has its own weights; `room` is a strip_gradient_room for
/// the values' gradient, undefined where it is not wanted.
template <class T>
std::unique_ptr<ValueWorker<T>> value_worker(const Tensor& values, std::int64_t planes, const Tensor& room);

}  // namespace fovea
