/// The interface between the fused engine and the parts of a plan.
///
/// The fused engine works on strips. A strip is a matrix [rows, J]: the pairs of a few queries of one head and all
/// keys. It fits the cache. The engine fills it with logits, lets each term change it, applies the softmax and
/// multiplies the weights with the values. The backward pass computes the same strip again. No matrix [I, J] is ever
/// stored, so that a call needs O(I + J) memory.
///
/// If each dimension of the values has weights of its own, a strip consists of D such matrices, one after the other.
/// They are called planes. A term sees one plane at a time.
///
/// Where the rows of a strip see keys in several intervals far from each other, such as the first keys and those
/// around the query, the strip is processed in pieces, one for each interval.
///
/// A "part of a head" is a range of its queries that one thread processes. An "item" is one part of one head of one
/// sentence.
///
/// Everything is a template over T, the type of the call's numbers, float or double.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attention/context.h"
#include "attention/engine/cpu/workspace.h"
#include "autograd/variable.h"
#include "tensor/cpu/panels.h"
#include "tensor/cpu/row_loop.h"

namespace fovea {

/// The sizes of one call.
struct StripShape {
  std::int64_t sentences, heads, queries, keys;  ///< B, H, I, J
  std::int64_t query_offset;                     ///< position of the first query among the keys
  /// Number of parts of a head's queries. Each part has its own gradients with respect to keys and values.
  std::int64_t parts;
  bool whole_sentences = false;  ///< one thread processes all heads of a sentence, so that they can share a gradient
};

/// Rows of a matrix. Row r has the columns (keys) first[r] ≤ j < end[r]; rows are `stride` elements apart.
struct RowsOfKeys {
  std::int64_t count, stride;
  const std::int64_t *first, *end;
};

template <class T>
class StripScore;
template <class T>
class ScoreWorker;

/// The pairs of a strip, or of one of its pieces. Row r is query first_query + r of its head; of the strip or the piece
/// it sees the keys first[r] ≤ j < end[r].
template <class T>
struct StripRows {
  std::int64_t sentence, head, part, first_query, count;
  std::int64_t query_offset;  ///< position of query 0 among the keys
  std::int64_t keys;          ///< J
  const std::int64_t *first, *end;
  const std::int64_t *visible_first, *visible_end;  ///< keys by lengths and causality only, without hard windows
  /// An interval with the keys of all rows; hull_first is a multiple of the vector width.
  std::int64_t hull_first, hull_end;
  std::int64_t stride;     ///< from row to row of every strip, in elements
  bool begins = true;      ///< whether this is the first plane and first piece of an item's first strip
  std::int64_t plane = 0;  ///< number of the plane that the term sees
  std::int64_t piece = 0;  ///< results per query are written for piece 0, and those of later pieces are added
  /// This thread's workers for the term's scores().
  std::span<const std::unique_ptr<ScoreWorker<T>>> scores = {};
  T* kept = nullptr;  ///< memory of the term's kept_strips() strips, in which forward() stores what backward() reads

  RowsOfKeys keys_of_rows() const { return {count, stride, first, end}; }
  RowsOfKeys keys_of_row(std::int64_t r) const { return {1, stride, first + r, end + r}; }
  std::int64_t query_position(std::int64_t row) const { return query_offset + first_query + row; }
  bool is_empty() const { return hull_first == hull_end; }
};

/// A part of a plan on strips. All threads use one object.
class StripPart {
 public:
  virtual ~StripPart() = default;
  /// The variables that the part reads and has gradients for.
  virtual std::vector<Variable> inputs() const { return {}; }
  /// Memory for the gradient of input k. The input's shape must broadcast to its shape: each part of a head's queries
  /// has a place of its own, and autograd sums over them. Zeros, if the part adds to it.
  virtual Tensor gradient_room(std::size_t k, const StripShape& shape) const {
    (void)k, (void)shape;
    return {};
  }
  /// Whether the part can process the pieces of a strip one by one: its result for a pair does not depend on other
  /// keys.
  virtual bool takes_pieces() const { return false; }

  /// The part acts on the heads first_head ≤ h < first_head + heads, and counts heads from first_head.
  std::int64_t first_head = 0, heads = 0;
  bool acts_on(std::int64_t head) const { return first_head <= head && head < first_head + heads; }
};

/// A term on strips: changes logits before the softmax, or weights after it.
template <class T>
class StripTerm : public StripPart {
 public:
  /// The term's own products of queries and keys. The engine provides their workers in StripRows::scores. inputs()
  /// begins with the scores' inputs.
  virtual std::span<const std::unique_ptr<StripScore<T>>> scores() const { return {}; }
  /// The size of StripRows::kept, in strips.
  virtual std::int64_t kept_strips() const { return 0; }

  /// to = f(from) at the visible pairs. `to` may be `from`.
  virtual void forward(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const = 0;
  /// Replaces `gradient`, that of f(from), by that of `from`. Adds to gradients[k], input k's memory, where it is
  /// defined. Outside of a row's keys `gradient` is 0 and stays 0. Also called for rows without keys, without forward()
  /// before.
  virtual void backward(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor> gradients,
                        Workspace& space) const = 0;
};

/// A term that adds to the output of a strip's queries.
template <class T>
class StripValueTerm : public StripPart {
 public:
  /// Adds the term's contribution to out [rows, D].
  virtual void forward(const StripRows<T>& rows, const T* weights, MatrixView<T> out, Workspace& space) const = 0;
  /// Adds to `gradient`, that of the weights, and to gradients[k] where they are defined.
  virtual void backward(const StripRows<T>& rows, const T* weights, MatrixView<const T> out_gradient, T* gradient,
                        std::span<Tensor> gradients, Workspace& space) const = 0;
};

/// Constructs a term's form on strips, for f32 or f64. StripForm::of<MyStrips>(arguments...) is one that constructs
/// MyStrips<T>(arguments...), where the class template MyStrips<T> derives from StripTerm<T>.
struct StripForm {
  std::function<std::unique_ptr<StripTerm<float>>()> f32;
  std::function<std::unique_ptr<StripTerm<double>>()> f64;

  template <template <class> class Strips, class... Arguments>
  static StripForm of(const Arguments&... arguments) {
    return {[=] { return std::make_unique<Strips<float>>(arguments...); },
            [=] { return std::make_unique<Strips<double>>(arguments...); }};
  }
};

/// The second base class of a CustomTerm that the fused engine computes on strips.
class WithStrips {
 public:
  virtual ~WithStrips() = default;
  /// The term for one call. `in` and `captured` are those of CustomTerm::composed().
  virtual StripForm strips(const AttentionContext& in, std::span<const Variable> captured) const = 0;
};

/// body(j, count) for each vector of the keys first ≤ j < end. `count` is as in for_vectors().
template <class T, class Body>
FOVEA_INLINE void for_keys(std::int64_t first, std::int64_t end, Body&& body) {
  for_vectors<T>(end - first, [&](std::int64_t j, auto count) { body(first + j, count); });
}

/// The keys of a row with |j − i| ≤ clip: the interval first ≤ j < second.
template <class T>
std::pair<std::int64_t, std::int64_t> inner_keys(const StripRows<T>& rows, std::int64_t r, std::int64_t clip) {
  std::int64_t position = rows.query_position(r);
  std::int64_t begin = std::clamp(position - clip, rows.first[r], rows.end[r]);
  return {begin, std::clamp(position + clip + 1, begin, rows.end[r])};
}

// ---- Tensors that broadcast to the pairs of a call

/// x with leading dimensions of 1 added, such that it has `rank` dimensions.
Tensor as_rank(const Tensor& x, int rank);
/// x with its last dimension broadcast to `keys`, and contiguous rows.
Tensor rows_of_keys(const Tensor& x, std::int64_t keys);

/// The offset of element (b, h, i) in a tensor of rank 3 or more whose first three dimensions broadcast to [B, H, I].
inline std::int64_t broadcast_offset(const Tensor& x, std::int64_t b, std::int64_t h, std::int64_t i) {
  return (x.shape()[0] > 1 ? b * x.strides()[0] : 0) + (x.shape()[1] > 1 ? h * x.strides()[1] : 0) +
         (x.shape()[2] > 1 ? i * x.strides()[2] : 0);
}

/// Σ_j row[j] over first ≤ j < end.
template <class T>
T sum_of(const T* row, std::int64_t first, std::int64_t end) {
  if (first == end) return 0;
  return sum_of_vectors<T>(end - first,
                           [&](std::int64_t j, auto count) { return load_vector(row + first + j, count); });
}

// ---- Steps on strips

/// Sets to 0 what lies inside the hull and outside of a row's keys.
template <class T>
void clear_outside(const StripRows<T>& rows, T* strip) {
  for (std::int64_t r = 0; r < rows.count; ++r) {
    T* row = strip + r * rows.stride;
    std::fill(row + rows.hull_first, row + std::max(rows.hull_first, rows.first[r]), T(0));
    std::fill(row + rows.end[r], row + std::max(rows.hull_end, rows.end[r]), T(0));
  }
}

/// The logarithm of a row's normaliser Σ_j exp(z_j), and its rounding error. Without `rest`, the weights that the
/// backward pass computes again from large logits would all be too large or too small.
template <class T>
struct LogTotal {
  T value, rest;  ///< the logarithm is value + rest
};

/// Softmax of each row over its keys, in place. exp(sink) is added to each normaliser; sink = −inf: no sink. Writes the
/// logarithms of the normalisers to log_totals[r], unless it is null. If all logits of a row are −inf, all its weights
/// are 0 and the logarithm is set to +inf.
template <class T>
void softmax_rows(const RowsOfKeys& rows, T* z, T sink, LogTotal<T>* log_totals);
/// The softmax of rows whose keys lie in several pieces, after softmax_rows() of each piece: given the normalisers of
/// each piece, totals[p][r], scales the weights to one softmax over all pieces and writes its normalisers to totals[0].
template <class T>
void join_softmax(std::span<const RowsOfKeys> pieces, std::span<LogTotal<T>* const> totals, T* weights);
/// The softmax with known normalisers: z = exp(z − log_total), row by row, in place.
template <class T>
void softmax_rows_again(const RowsOfKeys& rows, T* z, const LogTotal<T>* log_totals);
/// The softmax's backward pass: gradient = weights · (gradient − means[r]), where means[r] = Σ_j weights · gradient
/// over the row's keys. Writes the means, unless `means` is null.
template <class T>
void softmax_rows_backward(const RowsOfKeys& rows, const T* weights, T* gradient, T* means);
/// For a softmax over several pieces, after softmax_rows_backward() of each piece: subtracts weights · means[r] from a
/// piece's gradient, where means[r] is the sum of the other pieces' means. Where a weight is 0 the gradient is 0.
template <class T>
void subtract_means(const RowsOfKeys& rows, const T* weights, T* gradient, const T* means);
/// Densities: z = exp(min(z, Normalizer::largest_exponent)), row by row, in place.
template <class T>
void density_rows(const RowsOfKeys& rows, T* z);
/// The backward pass of density_rows() for one row, over the keys first ≤ j < end: gradient = weights · gradient, and 0
/// where the exponent is the largest one.
template <class T>
void density_row_backward(const T* weights, T* gradient, std::int64_t first, std::int64_t end);

/// Uninitialised memory for the gradient of a tensor [B, H, X, D]: [parts, B, H, X, D] for several parts. For one part
/// it is [B, H, X, D] in the memory order [B, X, H, D], so that merging the heads costs nothing.
Tensor strip_gradient_room(const Shape& shape, std::int64_t parts, DType dtype);

/// The matrix of one head and part in memory from strip_gradient_room().
template <class T>
MatrixView<T> strip_gradient(const Tensor& room, std::int64_t b, std::int64_t h, std::int64_t part) {
  int d = room.rank() - 4;
  std::int64_t offset = d ? part * room.strides()[0] : 0;
  return {room.mutable_data<T>() + offset + b * room.strides()[d] + h * room.strides()[d + 1], room.strides()[d + 2],
          1};
}

}  // namespace fovea
