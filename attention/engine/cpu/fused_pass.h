/// The common part of the fused engine's forward and backward pass: the loop over heads and strips, and the steps from
/// queries and keys to weights, which the backward pass repeats. strips.h explains strips, planes, pieces, parts and
/// items.
///
/// For the queries i of a strip and its keys j, with the equations of plan.h:
///
///     logits()      s_ij = score(q_i, k_j)            one product of matrices
///     apply()       z_ij, one bias after the other
///     normalize()   a_ij = exp(z_ij − log Σ_k exp(z_ik)), 0 for keys that i does not see
///     apply()       w_ij, one window after the other
///
/// make_steps() does all of this. fused_forward.cpp multiplies the weights with the values; fused_backward.cpp goes the
/// same way back.
///
/// *What is stored and what is computed again.* The derivative of a term needs the term's input, so that the backward
/// pass needs the whole sequence of strips s, z, ..., w. They are the strip's steps. Usually the forward pass keeps
/// only one of them at a time, each step in the place of the one before, and stores log Σ exp of each row; the backward
/// pass then makes all steps again, from these logarithms. Where a head has few keys and queries, the forward pass
/// stores its steps, and the backward pass finds them (room_for_steps()).
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "attention/engine/cpu/fused_call.h"
#include "attention/engine/cpu/strip_values.h"

namespace fovea {

/// Memory for the gradients of FusedCall::inputs(). Undefined where a gradient is not wanted.
struct GradientRooms {
  Tensor value;
  std::vector<std::vector<Tensor>> parts;  ///< by part and input, in the order of FusedCall::for_parts()
  Tensor sink;                             ///< [parts, B, H]
  Tensor carry;                            ///< FocusOfHead::carry, [B, H]
};

/// The results of the forward pass that the backward pass reads.
struct FusedResult {
  Tensor out;        ///< [B, H, I, D]
  Tensor log_total;  ///< LogTotal of each row, [planes, B, H, I, 2]
  Tensor focus;      ///< the focus after each query, [B, H, I], or undefined
  Tensor steps;      ///< memory from room_for_steps()
};

/// Up to this many keys a head's strip is no larger than its inputs. Storing it is then cheaper than computing it
/// again.
inline constexpr std::int64_t few_keys = 64;
/// Two intervals of keys with at least this many keys between them are two pieces of a strip. With fewer, processing
/// two pieces costs more than computing the keys between.
inline constexpr std::int64_t least_gap = 64;

/// Memory for the steps of every item, if storing them is cheaper than computing them again: there are at most few_keys
/// keys, and every item is one strip. Otherwise undefined.
template <class T>
Tensor room_for_steps(const FusedCall<T>& call);

template <class T>
class FusedPass {
 protected:
  /// The numbers of one strip between its score and its weights.
  struct Steps {
    std::vector<T*> inputs;  ///< of each term: biases, then windows
    T* weights;
    std::vector<T*> kept;  ///< StripRows::kept of each term
  };

  /// One thread's state for the item that it processes.
  struct Head {
    StripItem item;
    Workspace space;
    std::vector<std::unique_ptr<ScoreWorker<T>>> scores;
    std::size_t score;  ///< index of the score that acts on this head
    std::unique_ptr<ValueWorker<T>> values;
    std::vector<std::vector<std::unique_ptr<ScoreWorker<T>>>> term_scores;  ///< by term: biases, then windows
    // of the current strip:
    Steps steps;
    std::vector<std::int64_t> bounds;      ///< of the keys of its rows and of its pieces
    std::vector<Interval> intervals;       ///< the hulls of its intervals of keys, SeenKeys::intervals()
    StripRows<T> rows;                     ///< the whole strip
    std::vector<StripRows<T>> parts;       ///< its pieces, if there are several
    std::span<const StripRows<T>> pieces;  ///< `parts`, or `rows` as the only piece
  };

  /// `rooms` is null in the forward pass.
  FusedPass(const FusedCall<T>& call, const FusedResult& result, GradientRooms* rooms);
  bool is_backward() const { return rooms_ != nullptr; }

  /// body(head) for every item, on all threads.
  template <class Body>
  void for_heads(Body&& body) const;
  /// body(rows) for each strip of the item. With a focus, the backward pass goes from the last strip to the first.
  template <class Body>
  void for_strips(Head& head, Body&& body) const;

  // ---- Steps

  /// Sets head.steps to the steps of this strip: those that the forward pass stored, or else computes them. In a
  /// forward pass that stores none all steps are in one place, and only the last one, the weights, remains.
  void make_steps(Head& head, const StripRows<T>& rows) const;
  /// Size of StripRows::kept of term t for one plane, in elements.
  std::int64_t kept_size(std::size_t t, const StripRows<T>& rows) const {
    return term(t).kept_strips() * plane_size(rows);
  }
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

  /// body(piece) for each piece of the strip.
  template <class Body>
  static void for_pieces(const Head& head, Body&& body) {
    for (const StripRows<T>& piece : head.pieces) body(piece);
  }

  /// Writes the logits of all planes.
  void logits(Head& head, const StripRows<T>& rows, T* strip) const;
  /// Term t: biases first, then windows.
  const StripTerm<T>& term(std::size_t t) const {
    return t < call_.biases.size() ? *call_.biases[t] : *call_.windows[t - call_.biases.size()];
  }
  /// to = term t applied to `from`; a copy of `from` if the term does not act on this head. `to` may be `from`.
  void apply(std::size_t t, Head& head, const StripRows<T>& rows, const T* from, T* to) const;
  /// Replaces logits by weights: softmax, also with a focus, or densities. The backward pass uses the normalisers of
  /// the forward pass.
  void normalize(Head& head, const StripRows<T>& rows, T* strip) const;
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
  FocusOfHead<T> focus(const StripRows<T>& rows) const;
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
  StripRows<T> rows_of_term(std::size_t t, const Head& head, const StripRows<T>& rows, std::int64_t plane) const;

  /// Registers x [B, H, X, D] for prefetching: while a thread processes one item, it fetches the rows of x that belong
  /// to the next item's head into the cache.
  void prefetch(const Tensor& x);

  const FusedCall<T>& call_;
  const StripShape& shape_;
  const FusedResult& result_;
  GradientRooms* rooms_;
  Tensor focus_gradient_;  ///< gradient of FusedResult::focus [B, H, I], contiguous; undefined: it has none

 private:
  /// Sets head.steps to memory for this strip.
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
  /// Sets head.rows and head.pieces to the strip of `most` queries from first_query on, or of fewer where a document
  /// ends: the queries of a strip belong to one document, so that pairs of two documents are not computed. `begins`:
  /// whether this is the first strip of the item that is processed.
  void find_strip(Head& head, std::int64_t first_query, std::int64_t most, bool begins) const;
  /// Writes the keys of row r to the bounds, and adds them to the hull of the strip and to those of its intervals.
  void find_keys_of_row(Head& head, Interval visible, std::int64_t r) const;
  /// Sets head.pieces: one for each group of intervals with at least least_gap keys between it and the next.
  void cut_in_pieces(Head& head) const;
  void softmax(Head& head, T* matrix, T sink, LogTotal<T>* totals) const;

  /// Row r of the bounds begins at bound[r]; these are `first` and `end` of the strip, then of each of its pieces, with
  /// those of the visible keys between.
  std::int64_t* bound(Head& head, std::size_t number) const {
    return head.bounds.data() + static_cast<std::int64_t>(number) * call_.rows;
  }

  /// A registered tensor; strides are in bytes.
  struct Prefetched {
    RowsAhead::Matrix first;  ///< the matrix of sentence 0, head 0
    std::int64_t sentence_stride, head_stride;
  };

  std::int64_t stride_;
  std::vector<Prefetched> prefetched_;
  Tensor value_, sink_;
  T *log_total_, *focus_, *steps_;  ///< of the result, or null where it has none; the backward pass only reads them
};

template <class T>
template <class Body>
void FusedPass<T>::for_heads(Body&& body) const {
  const std::int64_t items = shape_.sentences * shape_.heads * shape_.parts,
                     items_at_once = shape_.whole_sentences ? shape_.heads * shape_.parts : 1,
                     width = call_.in.key.size(-1) + call_.in.value.size(-1),
                     work = shape_.queries * shape_.keys * width / shape_.parts * items_at_once;
  // The heads of all threads live until the last thread is done. A thread that ended early would otherwise hand its
  // memory to one that begins late, and the number of blocks that a pass needs would depend on how busy the machine is.
  std::list<Head> heads;
  std::mutex mutex;
  parallel_for(items / items_at_once, 1 + 16 * element_grain / (work + 1), [&](std::int64_t begin, std::int64_t end) {
    std::unique_lock lock(mutex);
    Head& head = heads.emplace_back();
    lock.unlock();
    head = make_head();
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
  const bool from_last = is_backward() && call_.focus;  // then all strips have `most` rows, but for the last one
  std::int64_t first = from_last ? begin + (end - begin - 1) / most * most : begin;
  for (bool begins = true; begin <= first && first < end; begins = false) {
    WorkspaceScope taken(head.space);
    find_strip(head, first, std::min(most, end - first), begins);
    body(head.rows);
    first += from_last ? -most : head.rows.count;
  }
}

/// The forward pass. Writes to the tensors of `result`, which are allocated, and to `weights` [planes, B, H, I, J] if
/// that is defined.
template <class T>
void fused_forward(const FusedCall<T>& call, const FusedResult& result, const Tensor& weights);

/// The backward pass. Returns the gradients of FusedCall::inputs(), in that order; undefined where `wanted` is false.
/// An undefined focus_gradient is zero.
template <class T>
std::vector<Tensor> fused_backward(const FusedCall<T>& call, const FusedResult& result, const Tensor& out_gradient,
                                   const Tensor& focus_gradient, const std::vector<bool>& wanted);

}  // namespace fovea
