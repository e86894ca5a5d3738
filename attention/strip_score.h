/// Scores in strips: what fills a strip with logits, and brings their gradient back.
#pragma once
#include <memory>
#include <vector>

#include "attention/strips.h"

namespace fovea {

/// What a thread works on at a time: one head of one sentence, or a part of its queries.
struct StripItem {
  std::int64_t sentence, head, part;
  std::int64_t strips;    ///< so many follow
  bool logits, backward;  ///< what will be asked for
};

/// A thread's work on a score: one item after the other, and their strips. The gradients of the inputs go where the
/// score's rooms are.
template <class T>
class ScoreWorker {
 public:
  virtual ~ScoreWorker() = default;
  /// `space` stays taken until finish().
  virtual void start(const StripItem& item, Workspace& space) = 0;
  /// The logits of all of the hull's keys, in each plane of its own.
  virtual void logits(const StripRows<T>& rows, T* strip, Workspace& space) = 0;
  /// From the gradient of the logits, 0 outside of a row's keys. Also called for rows that see no key.
  virtual void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) = 0;
  virtual void finish() {}
};

class StripScore {
 public:
  virtual ~StripScore() = default;
  virtual std::vector<Variable> inputs() const = 0;
  /// As StripTerm's; of queries and keys also uninitialised: every strip writes its queries, every item clears its
  /// keys.
  virtual Tensor gradient_room(std::size_t k, const StripShape& shape) const = 0;
  /// Planes of a strip where each dimension of the values has logits of its own; 0: it does not.
  virtual std::int64_t dimensions() const { return 0; }
  /// As StripTerm's; and its worker adds to the queries' gradient from the second piece on, where it writes otherwise.
  virtual bool takes_pieces() const { return false; }

  /// `rooms` are gradient_room()s, or undefined where a gradient is not wanted; none in the forward pass.
  virtual std::unique_ptr<ScoreWorker<float>> worker(float, const StripShape&, std::span<Tensor> rooms) const = 0;
  virtual std::unique_ptr<ScoreWorker<double>> worker(double, const StripShape&, std::span<Tensor> rooms) const = 0;

  /// The heads it acts on: [first_head, first_head + heads).
  std::int64_t first_head = 0, heads = 0;
};

/// Both types from one template: Score is the class whose worker Worker<T> is, made of it, the sizes and the rooms.
template <class Score, template <class> class Worker>
class StripScoreOf : public StripScore {
 public:
  std::unique_ptr<ScoreWorker<float>> worker(float, const StripShape& shape, std::span<Tensor> rooms) const override {
    return std::make_unique<Worker<float>>(static_cast<const Score&>(*this), shape, rooms);
  }
  std::unique_ptr<ScoreWorker<double>> worker(double, const StripShape& shape, std::span<Tensor> rooms) const override {
    return std::make_unique<Worker<double>>(static_cast<const Score&>(*this), shape, rooms);
  }
};

/// scale · q_i · k_j; queries [B, H, I, D], keys [B, H, J, D]. Exact: queries and keys are not rounded, whatever the
/// workspace says.
std::unique_ptr<StripScore> dot_strips(const Variable& queries, const Variable& keys, double scale, bool exact = false);
/// 0 for every pair.
std::unique_ptr<StripScore> no_score_strips();
/// (q_i)_j; queries [B, H, I, L]. Keys from L on have the last one's logit.
std::unique_ptr<StripScore> location_strips(const Variable& queries);
/// v · tanh(q_i + k_j); queries [B, H, I, a], keys [B, H, J, a], v [a] or [H, a].
std::unique_ptr<StripScore> additive_strips(const Variable& queries, const Variable& keys, const Variable& vector);
/// V tanh(q_i + k_j), a plane for each of its D columns; V [a, D] or [H, a, D].
std::unique_ptr<StripScore> fine_grained_strips(const Variable& queries, const Variable& keys, const Variable& V);

// ---- What scores and values share

/// One head's matrix of what broadcasts to [B, H, X, n], rows contiguous.
template <class T>
MatrixView<const T> head_matrix(const Tensor& x, std::int64_t b, std::int64_t h) {
  return {x.data<T>() + (x.shape()[0] > 1 ? b * x.strides()[0] : 0) + (x.shape()[1] > 1 ? h * x.strides()[1] : 0),
          x.strides()[2], 1};
}

/// `uses`: how many strips will multiply with it; a copy pays from the second one on, and one that is rounded at once.
/// Of what several strips use, only what they reach is copied.
template <class T>
FOVEA_INLINE Panels<T> packed_matrix(Workspace& space, MatrixView<const T> from, std::int64_t k, std::int64_t n,
                                     std::int64_t uses, Precision precision) {
  if constexpr (!std::is_same_v<T, float>) precision = Precision::f32;
  if (uses == 1 && precision == Precision::f32 && Panels<T>::readable(from, n)) return {from, k, n, &space.ahead};
  Panels<T> panels(space.take<T>(Panels<T>::size(k, n)), k, n, precision, &space.ahead);
  if (uses > 1)
    panels.pack_on_demand(from, space.take<bool>(Panels<T>::blocks(k, n)));
  else
    panels.pack(from);
  return panels;
}
/// In the workspace's precision.
template <class T>
Panels<T> packed_matrix(Workspace& space, MatrixView<const T> from, std::int64_t k, std::int64_t n,
                        std::int64_t uses = 1) {
  return packed_matrix(space, from, k, n, uses, space.products);
}

/// A strip's part of the gradient of something of the keys [J, n]: alpha · stripᵀ · from, where `strip_transposed`
/// [J, rows] is not 0 for keys in [first, end) alone, and from is [rows, n]. The first strip of an item writes, the
/// others add.
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

/// Where rows of strips lie apart: the keys in whole vectors, and not a page, whose rows would fight for the same cache
/// lines.
template <class T>
std::int64_t strip_stride(std::int64_t keys) {
  std::int64_t stride = Panels<T>::padded(keys);
  return stride * static_cast<std::int64_t>(sizeof(T)) % 1024 == 0 ? stride + Vec<T>::lanes : stride;
}

}  // namespace fovea
