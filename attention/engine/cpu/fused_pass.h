/// The common part of the fused engine's forward and backward pass: the loop over heads and strips, and the steps from
/// queries and keys to weights, which the backward pass repeats. strips.h explains strips, planes, parts and items.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "attention/engine/cpu/fused_call.h"
#include "attention/engine/cpu/strip_values.h"

namespace fovea {

/// Memory for the gradients of FusedCall::inputs(). Undefined where a gradient is not wanted.
struct GradientRooms {
  Tensor value;
  std::vector<std::vector<Tensor>> parts;  ///< by term and input, in the order of FusedCall::for_parts()
  Tensor sink;                             ///< [parts, B, H]
  Tensor carry;                            ///< CarriedNumbers::carry, [B, H]
};

/// The results of the forward pass that the backward pass reads.
struct FusedResult {
  Tensor out;        ///< [B, H, I, D]
  Tensor log_total;  ///< LogTotal of each row, [planes, B, H, I, 2]
  Tensor carried;    ///< the number that the recurrence carries out of each query, [B, H, I], or undefined
  Tensor steps;      ///< the steps of every item (see make_steps()); undefined: the backward pass computes them again
};

/// Up to this many keys a head's strip is no larger than its inputs. Storing it is then cheaper than computing it
/// again.
inline constexpr std::int64_t few_keys = 64;
/// A gap of at least this many keys is skipped. For a smaller one, processing two pieces costs more than it saves.
inline constexpr std::int64_t least_gap = 64;

/// Memory for FusedResult::steps if storing them is cheaper than computing them again: there are at most few_keys keys,
/// and every item is one strip. Otherwise undefined.
Tensor room_for_steps(const FusedCall& call);

template <class T>
class FusedPass {
 protected:
  /// One thread's state for the item that it processes.
  struct Head {
    StripItem item;
    Workspace space;
    std::vector<std::unique_ptr<ScoreWorker<T>>> scores;
    std::size_t score;  ///< index of the score that acts on this head
    std::unique_ptr<ValueWorker<T>> values;
    std::vector<std::vector<std::unique_ptr<ScoreWorker<T>>>> term_scores;  ///< by term: biases, then windows
    std::vector<T*> kept;                                                   ///< StripRows::kept of each term, or empty
    std::vector<T*> steps;                                                  ///< see make_steps(); or empty
    /// Bounds of the keys of the strip's rows and of its pieces; bounds_of_row numbers per row.
    std::vector<std::int64_t> bounds;
    std::array<StripRows<T>, 2> pieces;  ///< the current strip's pieces, if it has a gap
  };

  /// `rooms` is null in the forward pass.
  FusedPass(const FusedCall& call, const FusedResult& result, GradientRooms* rooms);

  /// body(head) for every item, on all threads.
  template <class Body>
  void for_heads(Body&& body) const;
  /// body(rows) for each strip of the item. With a recurrence, the backward pass goes from the last strip to the first.
  template <class Body>
  void for_strips(Head& head, Body&& body) const;

  // ---- Steps

  /// Size of StripRows::kept of term t for one plane, in elements.
  std::int64_t kept_size(std::size_t t, const StripRows<T>& rows) const {
    return term(t).kept_strips() * plane_size(rows);
  }
  /// Computes a strip's weights and stores all that the backward pass reads. head.steps[t] is the input of term t; the
  /// last step is the weights before dropout. The softmax is in place: weights overwrite the last logits, because
  /// derivatives of terms need their inputs, not their results. With `again` the normalisers in the result are used.
  void make_steps(Head& head, const StripRows<T>& rows, bool again) const;
  /// Sets head.steps and head.kept to those stored by the forward pass. Returns false if it stored none.
  bool find_steps(Head& head, const StripRows<T>& rows) const;
  T* take_strip(Head& head, const StripRows<T>& rows) const {
    return head.space.template take<T>(call_.planes * plane_size(rows));
  }
  std::int64_t plane_size(const StripRows<T>& rows) const { return rows.count * stride_; }
  std::int64_t size(const StripRows<T>& rows) const { return call_.planes * plane_size(rows); }
  std::size_t biases() const { return call_.biases.size(); }
  std::size_t terms() const { return biases() + call_.windows.size(); }
  /// body(offset of the plane in a strip, number of the plane) for each plane.
  template <class Body>
  void for_planes(const StripRows<T>& rows, Body&& body) const {
    for (std::int64_t p = 0; p < call_.planes; ++p) body(p * plane_size(rows), p);
  }

  /// body(rows) for the strip, or for each of its two pieces.
  template <class Body>
  void for_pieces(const Head& head, const StripRows<T>& rows, Body&& body) const {
    if (!rows.has_gap()) return body(rows);
    for (const StripRows<T>& piece : head.pieces) body(piece);
  }

  /// Writes the logits of all planes.
  void logits(Head& head, const StripRows<T>& rows, T* strip) const;
  /// Term t: biases first, then windows.
  const StripTerm& term(std::size_t t) const {
    return t < call_.biases.size() ? *call_.biases[t] : *call_.windows[t - call_.biases.size()];
  }
  /// to = term t applied to `from`; a copy of `from` if the term does not act on this head. `to` may be `from`.
  void apply(std::size_t t, Head& head, const StripRows<T>& rows, const T* from, T* to) const;
  /// Replaces logits by weights: softmax, recurrence or densities. With `again` the normalisers in the result are used.
  void normalize(Head& head, const StripRows<T>& rows, T* strip, bool again) const;
  /// Dropout's factors of a strip, 1 / (1 − p) or 0, written only for the keys that a row sees. The composed engine
  /// draws the same.
  struct DropoutFactors {
    T* numbers;  ///< [planes, rows, width], of the keys of the hull
    std::int64_t width, first_key;
    /// The factors of row `row` of all planes, indexed by the key.
    T* row(std::int64_t row) const { return numbers + row * width - first_key; }
  };
  DropoutFactors dropout_factors(Head& head, const StripRows<T>& rows) const;
  /// Multiplies a strip by its dropout factors, in place.
  void multiply(const Head& head, const StripRows<T>& rows, const DropoutFactors& factors, T* strip) const;
  /// Copies what lies in the hull, of all planes. (A narrow window sees little of a strip.)
  void copy(const Head& head, const StripRows<T>& rows, const T* from, T* to) const;

  /// The logarithms of the normalisers of a strip's rows, in one plane.
  LogTotal<T>* log_totals(const StripRows<T>& rows, std::int64_t plane) const;
  CarriedNumbers<T> carried(const StripRows<T>& rows) const;
  T sink(std::int64_t head) const;
  /// The rows of x [B, H, I, D] that belong to the strip's queries, for writing.
  static MatrixView<T> rows_of(const Tensor& x, const StripRows<T>& rows) {
    return {x.mutable_data<T>() + rows.sentence * x.strides()[0] + rows.head * x.strides()[1] +
                rows.first_query * x.strides()[2],
            x.strides()[2], 1};
  }

  /// A StripRows or StripItem with the head counted from `first_head`, the first one that a term acts on.
  template <class Place>
  static Place of_own_heads(const Place& place, std::int64_t first_head) {
    Place own = place;
    own.head -= first_head;
    return own;
  }
  template <class Part>
  static bool acts_on(const Part& part, std::int64_t head) {
    return part.first_head <= head && head < part.first_head + part.heads;
  }
  StripRows<T> rows_of_term(std::size_t t, const Head& head, const StripRows<T>& rows, std::int64_t plane) const;

  /// Registers x [B, H, X, D] for prefetching: while a thread processes one item, it fetches the rows of x that belong
  /// to the next item's head into the cache.
  void prefetch(const Tensor& x);

  const FusedCall& call_;
  const StripShape& shape_;
  const FusedResult& result_;
  GradientRooms* rooms_;
  Tensor carried_gradient_;  ///< gradient of FusedResult::carried [B, H, I], contiguous; undefined: it has none

 private:
  /// Sets head.steps and head.kept to memory for this strip.
  void place_steps(Head& head, const StripRows<T>& rows) const;
  Head make_head() const;
  /// Starts item `number`; items are counted over sentences, heads and parts.
  void start(Head& head, std::int64_t number) const;
  /// body(worker, first head that the score acts on) for all scores that act on this head, with those of terms.
  template <class Body>
  void for_scores(Head& head, Body&& body) const;
  void finish(Head& head) const;
  /// Begins to prefetch for item `number`.
  void prefetch_item(Head& head, std::int64_t number) const;
  /// The strip of `count` queries from first_query on, with the keys that they see.
  StripRows<T> strip(Head& head, std::int64_t first_query, std::int64_t count) const;
  /// Sets the strip's gap, if it has one of at least least_gap keys.
  void find_gap(StripRows<T>& rows) const;
  /// Sets head.pieces.
  static void cut_in_pieces(Head& head, const StripRows<T>& rows);
  void softmax(Head& head, const StripRows<T>& rows, T* matrix, LogTotal<T>* totals) const;
  /// The keys that row r sees, by windows and the recurrence, of those that are visible.
  Interval keys_of_row(Interval visible, const StripRows<T>& rows, std::int64_t r) const;

  /// first, end, visible_first and visible_end of the strip; first and end of each piece.
  static constexpr std::int64_t bounds_of_row = 8;
  static std::int64_t most_rows(const Head& head) {
    return static_cast<std::int64_t>(head.bounds.size()) / bounds_of_row;
  }

  /// A registered tensor; strides are in bytes.
  struct Prefetched {
    RowsAhead::Matrix first;  ///< the matrix of sentence 0, head 0
    std::int64_t sentence_stride, head_stride;
  };

  std::int64_t stride_;
  std::vector<Prefetched> prefetched_;
  Tensor value_, sink_;
  T *log_total_, *carried_, *steps_;  ///< of the result, or null where it has none; the backward pass only reads them
};

template <class T>
template <class Body>
void FusedPass<T>::for_heads(Body&& body) const {
  const std::int64_t items = shape_.sentences * shape_.heads * shape_.parts,
                     items_at_once = shape_.whole_sentences ? shape_.heads * shape_.parts : 1,
                     width = call_.in.key.size(-1) + call_.in.value.size(-1),
                     work = shape_.queries * shape_.keys * width / shape_.parts * items_at_once;
  parallel_for(items / items_at_once, 1 + 16 * element_grain / (work + 1), [&](std::int64_t begin, std::int64_t end) {
    Head head = make_head();
    for (std::int64_t k = begin * items_at_once; k < end * items_at_once; ++k) {
      WorkspaceScope taken(head.space);
      start(head, k);
      if (k + 1 < end * items_at_once) prefetch_item(head, k + 1);
      body(head);
      finish(head);
      head.space.ahead.fetch_all();
    }
  });
}

template <class T>
template <class Body>
void FusedPass<T>::for_strips(Head& head, Body&& body) const {
  const std::int64_t begin = shape_.queries * head.item.part / shape_.parts,
                     end = shape_.queries * (head.item.part + 1) / shape_.parts,
                     most = call_.rows_of_head(head.item.head);
  const bool backwards = rooms_ && call_.recurrence;
  for (std::int64_t s = 0; s < head.item.strips; ++s) {
    std::int64_t first = begin + (backwards ? head.item.strips - 1 - s : s) * most;
    WorkspaceScope taken(head.space);
    StripRows<T> rows = strip(head, first, std::min(most, end - first));
    rows.begins = s == 0;
    if (rows.has_gap()) cut_in_pieces(head, rows);
    body(rows);
  }
}

/// The forward pass. Writes to the tensors of `result`, which are allocated, and to `weights` [planes, B, H, I, J] if
/// that is defined.
void fused_forward(const FusedCall& call, const FusedResult& result, const Tensor& weights);

/// The backward pass. Returns the gradients of FusedCall::inputs(), in that order; undefined where `wanted` is false.
/// An undefined carried_gradient is zero.
std::vector<Tensor> fused_backward(const FusedCall& call, const FusedResult& result, const Tensor& out_gradient,
                                   const Tensor& carried_gradient, const std::vector<bool>& wanted);

}  // namespace fovea
