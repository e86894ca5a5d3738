/// Attention in strips: the fused engine's view of a term.
///
/// A strip is a matrix [rows, J] of a few queries of one head by all keys, in cache. The engine fills it with logits,
/// lets every term change it, makes weights of it and multiplies them with the values; the backward pass makes the same
/// strip again. Nothing of size I x J is ever kept: a call needs O(I + J) memory.
///
/// Where every dimension of the values has weights of its own, a strip is so many such matrices one after the other,
/// planes; terms see one at a time.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attention/workspace.h"
#include "autograd/variable.h"
#include "tensor/cpu/panels.h"
#include "tensor/cpu/row_loop.h"

namespace fovea {

/// The sizes of one call.
struct StripShape {
  std::int64_t sentences, heads, queries, keys;  ///< B, H, I, J
  std::int64_t query_offset;                     ///< position of the first query among the keys
  std::int64_t parts;  ///< the queries of a head are worked on in so many parts, each with its own key-side gradients
  bool whole_sentences = false;  ///< a thread has all heads of a sentence: one room for the gradient of what they share
};

/// Rows of a matrix, each with keys of its own: first[r] ≤ j < end[r].
struct RowsOfKeys {
  std::int64_t count, stride;
  const std::int64_t *first, *end;
};

class StripScore;
template <class T>
class ScoreWorker;

/// Which pairs a strip holds. Row r is query first_query + r; it sees keys first[r] ≤ j < end[r].
template <class T>
struct StripRows {
  std::int64_t sentence, head, part, first_query, count;
  std::int64_t query_offset, keys;  ///< position of query 0 among the keys; J
  const std::int64_t *first, *end;
  const std::int64_t *visible_first, *visible_end;  ///< by lengths and causality alone, before the terms' windows
  std::int64_t hull_first, hull_end;                ///< all rows' keys; hull_first is a multiple of the vector's lanes
  std::int64_t stride;                              ///< from row to row of any strip, in elements
  bool begins;                                      ///< first strip of its part of a head, first plane, first piece
  std::int64_t plane;                               ///< that a term sees
  /// This thread's, of the term's scores().
  std::span<const std::unique_ptr<ScoreWorker<T>>> scores;
  /// The term's kept_strips(): forward() leaves there what backward() reads; null where no backward pass will.
  T* kept = nullptr;
  /// Keys between the hull's ends that no row sees, and that are left out; none where both are equal. Then the keys
  /// come in two pieces: rows of their own, with bounds and a hull of their own, in the columns of the same strip.
  std::int64_t gap_first = 0, gap_end = 0;
  std::int64_t piece = 0;  ///< 0 or 1; the second one adds to what the first one wrote for a query

  RowsOfKeys keys_of_rows() const { return {count, stride, first, end}; }
  RowsOfKeys keys_of_row(std::int64_t r) const { return {1, stride, first + r, end + r}; }
  std::int64_t query_position(std::int64_t row) const { return query_offset + first_query + row; }
  bool is_empty() const { return hull_first == hull_end; }
  bool has_gap() const { return gap_first < gap_end; }
};

/// What a term does to strips: on logits before the softmax or on weights after it. One object serves all threads.
class StripTerm {
 public:
  virtual ~StripTerm() = default;

  /// The variables that it reads and brings gradients to.
  virtual std::vector<Variable> inputs() const = 0;
  /// Room for the gradient of input k, of a shape that broadcasts from the input's: each part of a head's queries adds
  /// to a place of its own, and the engine of autograd sums them. Zeros where the term adds.
  virtual Tensor gradient_room(std::size_t k, const StripShape& shape) const = 0;
  /// Its own products of queries and keys: the engine has them in StripRows. inputs() begins with theirs.
  virtual std::span<const std::unique_ptr<StripScore>> scores() const { return {}; }

  /// How many strips StripRows::kept is, one after the other.
  virtual std::int64_t kept_strips() const { return 0; }
  /// Whether it may be asked for one piece of the keys at a time: what it does at a pair depends on no other key.
  virtual bool takes_pieces() const { return false; }

  /// to = f(from) at the visible pairs; to may be from.
  virtual void forward(const StripRows<float>&, const float* from, float* to, Workspace&) const = 0;
  virtual void forward(const StripRows<double>&, const double* from, double* to, Workspace&) const = 0;
  /// `gradient` is that of f(from) and becomes that of from; adds to gradients[k], where they are defined. What lies
  /// outside of a row's keys is 0 and stays so. Also called for rows that see no key, without forward() before it.
  virtual void backward(const StripRows<float>&, const float* from, float* gradient, std::span<Tensor> gradients,
                        Workspace&) const = 0;
  virtual void backward(const StripRows<double>&, const double* from, double* gradient, std::span<Tensor> gradients,
                        Workspace&) const = 0;

  /// The heads it acts on: [first_head, first_head + heads).
  std::int64_t first_head = 0, heads = 0;
};

/// What a term adds to the output of a strip.
class StripValueTerm {
 public:
  virtual ~StripValueTerm() = default;
  virtual std::vector<Variable> inputs() const = 0;
  virtual Tensor gradient_room(std::size_t k, const StripShape& shape) const = 0;
  /// As StripTerm's.
  virtual bool takes_pieces() const { return false; }

  /// out [rows, D] += what the weights make.
  virtual void forward(const StripRows<float>&, const float* weights, MatrixView<float> out, Workspace&) const = 0;
  virtual void forward(const StripRows<double>&, const double* weights, MatrixView<double> out, Workspace&) const = 0;
  /// Adds to the weights' gradient, and to gradients[k].
  virtual void backward(const StripRows<float>&, const float* weights, MatrixView<const float> out_gradient,
                        float* gradient, std::span<Tensor> gradients, Workspace&) const = 0;
  virtual void backward(const StripRows<double>&, const double* weights, MatrixView<const double> out_gradient,
                        double* gradient, std::span<Tensor> gradients, Workspace&) const = 0;

  std::int64_t first_head = 0, heads = 0;
};

/// Both types from one template: Term has forward_strip<T> and backward_strip<T>.
template <class Term>
class StripTermOf : public StripTerm {
 public:
  void forward(const StripRows<float>& rows, const float* from, float* to, Workspace& space) const override {
    self().template forward_strip<float>(rows, from, to, space);
  }
  void forward(const StripRows<double>& rows, const double* from, double* to, Workspace& space) const override {
    self().template forward_strip<double>(rows, from, to, space);
  }
  void backward(const StripRows<float>& rows, const float* from, float* gradient, std::span<Tensor> gradients,
                Workspace& space) const override {
    self().template backward_strip<float>(rows, from, gradient, gradients, space);
  }
  void backward(const StripRows<double>& rows, const double* from, double* gradient, std::span<Tensor> gradients,
                Workspace& space) const override {
    self().template backward_strip<double>(rows, from, gradient, gradients, space);
  }

 private:
  const Term& self() const { return static_cast<const Term&>(*this); }
};

/// The same for values.
template <class Term>
class StripValueTermOf : public StripValueTerm {
 public:
  void forward(const StripRows<float>& rows, const float* weights, MatrixView<float> out,
               Workspace& space) const override {
    self().template forward_strip<float>(rows, weights, out, space);
  }
  void forward(const StripRows<double>& rows, const double* weights, MatrixView<double> out,
               Workspace& space) const override {
    self().template forward_strip<double>(rows, weights, out, space);
  }
  void backward(const StripRows<float>& rows, const float* weights, MatrixView<const float> out_gradient,
                float* gradient, std::span<Tensor> gradients, Workspace& space) const override {
    self().template backward_strip<float>(rows, weights, out_gradient, gradient, gradients, space);
  }
  void backward(const StripRows<double>& rows, const double* weights, MatrixView<const double> out_gradient,
                double* gradient, std::span<Tensor> gradients, Workspace& space) const override {
    self().template backward_strip<double>(rows, weights, out_gradient, gradient, gradients, space);
  }

 private:
  const Term& self() const { return static_cast<const Term&>(*this); }
};

/// body(j, count) for the vectors of the keys [first, end): count as in for_vectors.
template <class T, class Body>
FOVEA_INLINE void for_keys(std::int64_t first, std::int64_t end, Body&& body) {
  for_vectors<T>(end - first, [&](std::int64_t j, auto count) { body(first + j, count); });
}

/// The keys of a row whose offsets j − i are within ±clip: [first, second).
template <class T>
std::pair<std::int64_t, std::int64_t> inner_keys(const StripRows<T>& rows, std::int64_t r, std::int64_t clip) {
  std::int64_t position = rows.query_position(r);
  std::int64_t begin = std::clamp(position - clip, rows.first[r], rows.end[r]);
  return {begin, std::clamp(position + clip + 1, begin, rows.end[r])};
}

/// The element (b, h, i) of a tensor that broadcasts to [B, H, I]; x has rank 3.
inline std::int64_t broadcast_offset(const Tensor& x, std::int64_t b, std::int64_t h, std::int64_t i) {
  return (x.shape()[0] > 1 ? b * x.strides()[0] : 0) + (x.shape()[1] > 1 ? h * x.strides()[1] : 0) +
         (x.shape()[2] > 1 ? i * x.strides()[2] : 0);
}

/// Rows of a strip outside of [first, end) but inside the hull, set to 0.
template <class T>
void clear_outside(const StripRows<T>& rows, T* strip) {
  for (std::int64_t r = 0; r < rows.count; ++r) {
    T* row = strip + r * rows.stride;
    std::fill(row + rows.hull_first, row + std::max(rows.hull_first, rows.first[r]), T(0));
    std::fill(row + rows.end[r], row + std::max(rows.hull_end, rows.end[r]), T(0));
  }
}

/// The logarithm of a row's normaliser, and what its rounding left: without that, weights made again of large logits
/// would all be too large or too small.
template <class T>
struct LogTotal {
  T value, rest;
};

/// Softmax of each row over its keys, in place, and the logarithms of the normalisers: +inf, and all weights 0, where
/// no logit is finite; null: not wanted. exp(sink) is part of the normalisers; sink = −inf: none.
template <class T>
void softmax_rows(const RowsOfKeys& rows, T* z, T sink, LogTotal<T>* log_totals);
/// Two pieces of the rows, each with weights and normalisers of its own, become one softmax; `totals` may be of_a.
template <class T>
void join_softmax(const RowsOfKeys& a, const LogTotal<T>* of_a, const RowsOfKeys& b, const LogTotal<T>* of_b,
                  T* weights, LogTotal<T>* totals);
/// The same again, from the logarithms of the normalisers.
template <class T>
void softmax_rows_again(const RowsOfKeys& rows, T* z, const LogTotal<T>* log_totals);
/// gradient = weights · (gradient − mean), means[r] = Σ weights · gradient over the row's keys; null: not wanted.
template <class T>
void softmax_rows_backward(const RowsOfKeys& rows, const T* weights, T* gradient, T* means);
/// What the mean over another piece still takes from this one's gradient: −= weights · means[r], 0 where a weight is 0.
template <class T>
void subtract_means(const RowsOfKeys& rows, const T* weights, T* gradient, const T* means);
/// The gradient through weights that are exp(z): gradient = weights · gradient.
template <class T>
void density_row_backward(const T* weights, T* gradient, std::int64_t first, std::int64_t end);

/// Not initialised room for the gradient of heads' matrices [B, H, X, D]: in several parts [parts, B, H, X, D], which
/// broadcast from it, or itself with the heads side by side.
Tensor strip_gradient_room(const Shape& shape, std::int64_t parts, DType dtype);

/// One head's matrix of such a room, for a part of its queries.
template <class T>
MatrixView<T> strip_gradient(const Tensor& room, std::int64_t b, std::int64_t h, std::int64_t part) {
  int d = room.rank() - 4;
  std::int64_t offset = d ? part * room.strides()[0] : 0;
  return {room.data<T>() + offset + b * room.strides()[d] + h * room.strides()[d + 1], room.strides()[d + 2], 1};
}

}  // namespace fovea
