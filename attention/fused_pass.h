/// What the two passes of the fused engine share: the loop over heads and their strips, and the steps from queries and
/// keys to weights, which the backward pass takes again.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "attention/fused_call.h"
#include "attention/strip_values.h"

namespace fovea {

/// Room for the gradients of FusedCall::inputs(); undefined where one is not wanted.
struct GradientRooms {
  Tensor value;
  std::vector<std::vector<Tensor>> parts;  ///< as FusedCall::for_parts goes
  Tensor sink;                             ///< [parts, B, H]
  Tensor carry;                            ///< of the recurrence, [B, H]
};

/// What the forward pass leaves, and the backward pass reads.
struct FusedResult {
  Tensor out;        ///< [B, H, I, D]
  Tensor log_total;  ///< LogTotal of each row, [planes, B, H, I, 2]
  Tensor carried;    ///< by the recurrence from query to query [B, H, I], or undefined
  Tensor steps;      ///< FusedPass::Steps of every item, or undefined: the backward pass makes them again
};

/// Of so many keys at most, a head's strip is no larger than its inputs, and cheaper to keep than to make again.
inline constexpr std::int64_t few_keys = 64;
/// So many keys that no row of a strip sees are left out of its products: more than the pieces' own passes cost.
inline constexpr std::int64_t least_gap = 64;

/// Room for FusedResult::steps, if the call's strips are worth it: every part of a head is one strip of few keys.
Tensor room_for_steps(const FusedCall& call);

template <class T>
class FusedPass {
 protected:
  /// What a thread has of the head that it works on.
  struct Head {
    StripItem item;
    Workspace space;
    std::vector<std::unique_ptr<ScoreWorker<T>>> scores;
    std::size_t score;  ///< the head's
    std::unique_ptr<ValueWorker<T>> values;
    std::vector<std::vector<std::unique_ptr<ScoreWorker<T>>>> term_scores;  ///< of biases, then of windows
    std::vector<T*> kept, steps;         ///< StripRows::kept of the same, and Steps; or empty
    std::vector<std::int64_t> bounds;    ///< of the strip's rows and of its pieces': bounds_of_row of them for a row
    std::array<StripRows<T>, 2> pieces;  ///< of the strip that is worked on, if it has a gap
  };

  /// `rooms` in the backward pass, null in the forward pass.
  FusedPass(const FusedCall& call, const FusedResult& result, GradientRooms* rooms);

  /// body(head) for every part of every head, on all threads.
  template <class Body>
  void for_heads(Body&& body) const;
  /// body(rows) for the strips of a head, in the order that a recurrence wants.
  template <class Body>
  void for_strips(Head& head, Body&& body) const;

  // ---- Steps

  /// What a term keeps of a plane of a strip.
  std::int64_t kept_size(std::size_t t, const StripRows<T>& rows) const {
    return term(t).kept_strips() * plane_size(rows);
  }
  /// Logits become weights, and nothing is overwritten that the backward pass reads: head.steps[t] is what term t
  /// starts from, the last one the weights before dropout. Weights lie where the last logits were: a term's derivative
  /// needs what it starts from, not its result. `again`: with the normaliser as it is in the result.
  void make_steps(Head& head, const StripRows<T>& rows, bool again) const;
  /// As the forward pass left them in the result, if it did.
  bool find_steps(Head& head, const StripRows<T>& rows) const;
  T* take_strip(Head& head, const StripRows<T>& rows) const {
    return head.space.template take<T>(call_.planes * plane_size(rows));
  }
  std::int64_t plane_size(const StripRows<T>& rows) const { return rows.count * stride_; }
  std::int64_t size(const StripRows<T>& rows) const { return call_.planes * plane_size(rows); }
  std::size_t biases() const { return call_.biases.size(); }
  std::size_t terms() const { return biases() + call_.windows.size(); }
  /// body(where the plane begins in a strip, its number)
  template <class Body>
  void for_planes(const StripRows<T>& rows, Body&& body) const {
    for (std::int64_t p = 0; p < call_.planes; ++p) body(p * plane_size(rows), p);
  }

  /// body(rows) for the strip's rows, or for each piece of their keys.
  template <class Body>
  void for_pieces(const Head& head, const StripRows<T>& rows, Body&& body) const {
    if (!rows.has_gap()) return body(rows);
    for (const StripRows<T>& piece : head.pieces) body(piece);
  }

  void logits(Head& head, const StripRows<T>& rows, T* strip) const;
  /// Biases first, then windows.
  const StripTerm& term(std::size_t t) const {
    return t < call_.biases.size() ? *call_.biases[t] : *call_.windows[t - call_.biases.size()];
  }
  /// to = what the term makes of from, if it acts on this head; to may be from.
  void apply(std::size_t t, Head& head, const StripRows<T>& rows, const T* from, T* to) const;
  /// Logits become weights; `again`: with the normaliser as it is in the result.
  void normalize(Head& head, const StripRows<T>& rows, T* strip, bool again) const;
  /// 1 / (1 − p) for the pairs that dropout keeps, 0 for the others, [planes, rows, J], as composed attention draws
  /// them.
  const T* dropout_factors(Head& head, const StripRows<T>& rows) const;
  void multiply(const Head& head, const StripRows<T>& rows, const T* factors, T* strip) const;

  /// The logarithms of a plane's normalisers, of a strip's rows.
  LogTotal<T>* log_totals(const StripRows<T>& rows, std::int64_t plane) const;
  CarriedNumbers<T> carried(const StripRows<T>& rows) const;
  T sink(std::int64_t head) const;
  /// A [B, H, I, D] tensor's rows of a strip.
  static MatrixView<T> rows_of(const Tensor& x, const StripRows<T>& rows) {
    return {
        x.data<T>() + rows.sentence * x.strides()[0] + rows.head * x.strides()[1] + rows.first_query * x.strides()[2],
        x.strides()[2], 1};
  }

  /// Rows, or an item, as a part of the call sees them that counts its own heads alone.
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

  /// A tensor [B, H, X, D] that every head reads or writes its own rows of: they are fetched while the head before is
  /// worked on.
  void fetches(const Tensor& x);

  const FusedCall& call_;
  const StripShape& shape_;
  const FusedResult& result_;
  GradientRooms* rooms_;
  Tensor carried_gradient_;  ///< [B, H, I], contiguous; undefined: none

 private:
  void place_steps(Head& head, const StripRows<T>& rows) const;
  Head make_head() const;
  void start(Head& head, std::int64_t number) const;
  /// body(worker, the first head that it counts) for all scores that act on the head.
  template <class Body>
  void for_scores(Head& head, Body&& body) const;
  void finish(Head& head) const;
  void look_ahead(Head& head, std::int64_t number) const;
  StripRows<T> strip(Head& head, std::int64_t first_query, std::int64_t count) const;
  void find_gap(StripRows<T>& rows) const;
  static void cut_in_pieces(Head& head, const StripRows<T>& rows);
  void softmax(Head& head, const StripRows<T>& rows, T* matrix, LogTotal<T>* totals) const;
  Interval keys_of_row(Interval visible, const StripRows<T>& rows, std::int64_t r) const;

  /// first, end, visible_first, visible_end; first and end of each piece.
  static constexpr std::int64_t bounds_of_row = 8;
  static std::int64_t most_rows(const Head& head) {
    return static_cast<std::int64_t>(head.bounds.size()) / bounds_of_row;
  }

  /// Rows of heads, strides in bytes.
  struct Fetched {
    RowsAhead::Matrix first;
    std::int64_t sentence_stride, head_stride;
  };

  std::int64_t stride_;
  std::vector<Fetched> fetched_;
  Tensor value_, sink_;
};

template <class T>
template <class Body>
void FusedPass<T>::for_heads(Body&& body) const {
  const std::int64_t items = shape_.sentences * shape_.heads * shape_.parts,
                     together = shape_.whole_sentences ? shape_.heads * shape_.parts : 1,
                     width = call_.in.key.size(-1) + call_.in.value.size(-1),
                     work = shape_.queries * shape_.keys * width / shape_.parts * together;
  parallel_for(items / together, 1 + 16 * element_grain / (work + 1), [&](std::int64_t begin, std::int64_t end) {
    Head head = make_head();
    for (std::int64_t k = begin * together; k < end * together; ++k) {
      WorkspaceScope taken(head.space);
      start(head, k);
      if (k + 1 < end * together) look_ahead(head, k + 1);
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

/// Fills in the result, of which `out`, `log_total` and `carried` have their sizes; and the weights [planes, B, H, I,
/// J] where that is defined.
void fused_forward(const FusedCall& call, const FusedResult& result, const Tensor& weights);

/// The gradients of the call's inputs, in their order, for those that `wanted` names. Undefined gradients are zero.
std::vector<Tensor> fused_backward(const FusedCall& call, const FusedResult& result, const Tensor& out_gradient,
                                   const Tensor& carried_gradient, const std::vector<bool>& wanted);

}  // namespace fovea
