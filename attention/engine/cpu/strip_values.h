/// The values on strips: the output from a strip's weights, and the gradients of weights and values.
#pragma once
#include <memory>

#include "attention/engine/cpu/strip_score.h"

namespace fovea {

/// One thread's state for the values. The thread processes items one after the other, as with ScoreWorker.
template <class T>
class ValueWorker {
 public:
  virtual ~ValueWorker() = default;
  /// Memory taken from `space` stays valid until finish().
  virtual void start(const StripItem& item, Workspace& space) = 0;
  /// out_i = Σ_j w_ij v_j. The second piece of a strip adds to out_i.
  virtual void weighted_sum(const StripRows<T>& rows, const T* weights, MatrixView<T> out) = 0;
  /// dv_j += w_ij g_i, where g is the gradient of the output. Also called for rows without keys.
  virtual void backward_of_values(const StripRows<T>& rows, const T* weights, MatrixView<const T> g,
                                  Workspace& space) = 0;
  /// dw_ij = g_i · v_j, for all keys of the hull.
  virtual void backward_of_weights(const StripRows<T>& rows, MatrixView<const T> g, T* gradient) = 0;
  virtual void finish() {}
};

/// values [B, H, J, D]. `planes` is 1, or D if each dimension has its own weights. `room` is memory from
/// strip_gradient_room() for the values' gradient; undefined if that is not wanted.
template <class T>
std::unique_ptr<ValueWorker<T>> value_worker(const Tensor& values, std::int64_t planes, const Tensor& room);

}  // namespace fovea
