/// Scores on strips. A score computes a strip's logits and the gradients of its inputs from the gradient of the logits.
#pragma once
#include <memory>
#include <vector>

#include "attention/engine/cpu/strips.h"

namespace fovea {

/// The unit of a thread's work: one part of the queries of one head of one sentence.
struct StripItem {
  std::int64_t sentence, head, part;
  std::int64_t strips;  ///< number of strips of this item, or more where documents end inside of a strip
  bool logits;          ///< whether ScoreWorker::logits() will be called
  bool backward;        ///< whether ScoreWorker::backward() will be called
};

/// One thread's state for a score. The thread processes items one after the other: start(), then logits() or backward()
/// for each strip, then finish(). Gradients are written to the memory that StripScore::worker() was given.
template <class T>
class ScoreWorker {
 public:
  virtual ~ScoreWorker() = default;
  /// Memory taken from `space` stays valid until finish().
  virtual void start(const StripItem& item, Workspace& space) = 0;
  /// Writes the logits of all keys of the hull, in every plane that the score has.
  virtual void logits(const StripRows<T>& rows, T* strip, Workspace& space) = 0;
  /// Computes the inputs' gradients from that of the logits, which is 0 outside of a row's keys. Also called for rows
  /// without keys.
  virtual void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) = 0;
  virtual void finish() {}
};

/// A score on strips. For queries and keys the memory of gradient_room() may be uninitialised: each strip writes its
/// queries' gradient, and the first strip of each item writes that of the keys. A score that takes pieces writes the
/// queries' gradient in the first piece of a strip and adds to it in the others.
template <class T>
class StripScore : public StripPart {
 public:
  /// Number of planes, if each dimension of the values has logits of its own; otherwise 0.
  virtual std::int64_t dimensions() const { return 0; }
  /// `rooms` are the results of gradient_room(), undefined where a gradient is not wanted. Empty in the forward pass.
  virtual std::unique_ptr<ScoreWorker<T>> worker(const StripShape& shape, std::span<Tensor> rooms) const = 0;
};

/// scale · q_i · k_j. queries [B, H, I, D], keys [B, H, J, D]. With `exact` queries and keys are never rounded to bf16.
template <class T>
std::unique_ptr<StripScore<T>> dot_strips(const Variable& queries, const Variable& keys, double scale,
                                          bool exact = false);
/// 0 for every pair.
template <class T>
std::unique_ptr<StripScore<T>> no_score_strips();
/// (q_i)_j. queries [B, H, I, L]. Keys j ≥ L have the logit of key L − 1.
template <class T>
std::unique_ptr<StripScore<T>> location_strips(const Variable& queries);
/// v · tanh(q_i + k_j). queries [B, H, I, a], keys [B, H, J, a], v [a] or [H, a].
template <class T>
std::unique_ptr<StripScore<T>> additive_strips(const Variable& queries, const Variable& keys, const Variable& vector);
/// tanh(q_i + k_j) V, one plane for each of the D columns of V. V [a, D] or [H, a, D]; queries and keys as above.
template <class T>
std::unique_ptr<StripScore<T>> fine_grained_strips(const Variable& queries, const Variable& keys, const Variable& V);

// ---- Shared by scores and values

/// The matrix [X, n] of one head in a tensor that broadcasts to [B, H, X, n] and has contiguous rows.
template <class T>
MatrixView<const T> head_matrix(const Tensor& x, std::int64_t b, std::int64_t h) {
  return {x.data<T>() + (x.shape()[0] > 1 ? b * x.strides()[0] : 0) + (x.shape()[1] > 1 ? h * x.strides()[1] : 0),
          x.strides()[2], 1};
}

/// A matrix [k, n] prepared as the right factor of `uses` products. It is copied for two products or more, for rounding
/// and where Panels cannot read it in place.
template <class T>
FOVEA_INLINE Panels<T> packed_matrix(Workspace& space, MatrixView<const T> from, std::int64_t k, std::int64_t n,
                                     std::int64_t uses, Precision precision) {
  if constexpr (!std::is_same_v<T, float>) precision = Precision::f32;
  if (uses == 1 && precision == Precision::f32 && Panels<T>::readable(from, n)) return {from, k, n, &space.ahead};
  T* memory = space.take<T>(Panels<T>::size(k, n));
  return {from, k, n, memory, space.take<bool>(Panels<T>::blocks(k, n)), precision, &space.ahead};
}
/// The same in the workspace's precision.
template <class T>
Panels<T> packed_matrix(Workspace& space, MatrixView<const T> from, std::int64_t k, std::int64_t n,
                        std::int64_t uses = 1) {
  return packed_matrix(space, from, k, n, uses, space.products);
}

/// One strip's share of a gradient [J, n] with respect to keys or values: to += alpha · stripᵀ · from, where from is
/// [rows, n]. The item's first strip overwrites `to`. `strip_transposed` is [J, rows]; it is 0 outside of the keys
/// first ≤ j < end.
template <class T>
void add_key_gradient(const StripRows<T>& rows, MatrixView<T> to, std::int64_t n, std::int64_t first, std::int64_t end,
                      T alpha, MatrixView<const T> strip_transposed, MatrixView<const T> from, Workspace& space) {
  auto clear = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) std::fill_n(to.at(j, 0), n, T(0));
  };
  if (rows.begins) {
    clear(0, first);
    clear(end, rows.keys);
  }
  if (first >= end) return;
  WorkspaceScope taken(space);
  packed_matrix(space, from, rows.count, n)
      .multiply(end - first, alpha, strip_transposed.from(first, 0), rows.begins ? T(0) : T(1), to.from(first, 0));
}
template <class T>
void add_key_gradient(const StripRows<T>& rows, MatrixView<T> to, std::int64_t n, T alpha, const T* strip,
                      MatrixView<const T> from, Workspace& space) {
  add_key_gradient(rows, to, n, rows.hull_first, rows.hull_end, alpha, {strip, 1, rows.stride}, from, space);
}

/// The stride of a strip's rows, in elements: whole vectors, and not a multiple of 1024 bytes, because then rows would
/// compete for the same lines of the cache.
template <class T>
std::int64_t strip_stride(std::int64_t keys) {
  std::int64_t stride = Panels<T>::padded(keys);
  return stride * static_cast<std::int64_t>(sizeof(T)) % 1024 == 0 ? stride + Vec<T>::lanes : stride;
}

}  // namespace fovea
