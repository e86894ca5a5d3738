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
/// around the query, the strip is processed interval by interval.
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
#include "attention/engine/cpu/pair_rows.h"
#include "attention/engine/cpu/panels.h"
#include "attention/engine/cpu/workspace.h"
#include "attention/formula/captures.h"
#include "autograd/variable.h"
#include "tensor/cpu/row_loop.h"

namespace fovea {

/// The sizes of one call, or of the heads that one part of the plan acts on.
struct StripShape {
  std::int64_t sentences, heads, queries, keys;  ///< B, H, I, J
  std::int64_t query_offset;                     ///< position of the first query among the keys
  /// Number of parts of a head's queries. Each part has its own gradients with respect to keys and values.
  std::int64_t parts;
  bool whole_sentences = false;  ///< one thread processes all heads of a sentence, so that they can share a gradient
};

/// The unit of a thread's work: one part of the queries of one head of one sentence.
struct StripItem {
  std::int64_t sentence, head, part;
  std::int64_t strips;  ///< number of strips of this item, or more where documents end inside of a strip
  bool logits;          ///< whether logits are computed: not in a backward pass that finds the steps stored
  bool backward;
};

/// The pairs of a strip, or of one interval of its keys. Row r is query first_query + r of its head; of the strip or
/// the interval it sees the keys first[r] ≤ j < end[r].
template <class T>
struct StripRows {
  std::int64_t sentence, head, part, first_query, count;
  std::int64_t query_offset;  ///< position of query 0 among the keys
  std::int64_t keys;          ///< J
  const std::int64_t *first, *end;
  const std::int64_t *visible_first, *visible_end;  ///< keys by lengths and causality only, without hard windows
  /// An interval with the keys of all rows; hull_first is a multiple of the vector width.
  std::int64_t hull_first, hull_end;
  std::int64_t stride;        ///< from row to row of every strip, in elements
  bool begins = true;         ///< whether this is the first plane and first interval of an item's first strip
  std::int64_t plane = 0;     ///< number of the plane that the term sees
  std::int64_t interval = 0;  ///< results per query are written for interval 0, and those of later ones are added
  T* saved = nullptr;  ///< memory of StripTerm::saved_strips strips, in which forward() stores what backward() reads

  PairRows<T> pairs() const { return {count, stride, first, end, query_position(0)}; }
  /// Row r alone.
  StripRows row(std::int64_t r) const {
    StripRows one = *this;
    one.count = 1, one.first_query += r;
    one.first += r, one.end += r, one.visible_first += r, one.visible_end += r;
    return one;
  }
  std::int64_t query_position(std::int64_t row) const { return query_offset + first_query + row; }
  std::int64_t size() const { return count * stride; }  ///< of one plane, in elements
  bool is_empty() const { return hull_first == hull_end; }
};

/// A variable that a part reads, and the buffer of its gradient.
struct StripInput {
  Variable variable;
  /// The shape of the buffer. The variable's shape must broadcast to it: each part of a head's queries has a place of
  /// its own, and autograd sums over them.
  Shape buffer;
  /// Whether the part adds to the buffer, which begins with zeros. Otherwise the buffer is [B, H, X, D] or [parts, B,
  /// H, X, D] and begins uninitialised.
  bool adds = true;
};
/// Uninitialised memory for a tensor [B, H, X, D], or [parts, B, H, X, D] for several parts. Without parts its memory
/// order is [B, X, H, D], so that merging the heads costs nothing.
Tensor empty_by_position(const Shape& shape, DType dtype);
/// Queries [B, H, I, D]. Each strip writes the gradient of its own queries.
StripInput query_input(const Variable& queries, const StripShape& shape);
/// Keys or values [B, H, J, D]. The first strip of an item writes their gradient, and the others add to it.
StripInput key_input(const Variable& keys, const StripShape& shape);

/// A part of a plan on strips. Each thread has a copy of its own, and processes items one after the other: start(), the
/// functions of derived classes for each strip, finish(). Heads are counted from the first one that the part acts on.
class StripPart {
 public:
  virtual ~StripPart() = default;
  /// Memory taken from `space` stays valid until finish().
  virtual void start(const StripItem& item, Workspace& space) { (void)item, (void)space; }
  virtual void finish() {}
  bool acts_on(std::int64_t head) const { return heads.first <= head && head < heads.first + heads.count; }

  std::vector<StripInput> inputs;  ///< the variables that have gradients; the constructor sets them
  /// Whether the part can process the intervals of a strip one by one: its result for a pair does not depend on other
  /// keys. Set by the constructor, too.
  bool by_interval = false;
  HeadRange heads;  ///< the heads that the part acts on; the engine sets them
  /// Whether a window may turn the weight of a hidden key, 0, into another number, which the engine then sets to 0:
  /// that of a CustomTerm. The engine sets it.
  bool may_change_zeros = false;
  std::span<Tensor> gradients;  ///< buffers of `inputs`, undefined where not wanted; empty in the forward pass
};

/// Computes the logits of a strip, and the gradients of its inputs from the gradient of the logits.
template <class T>
class StripScore : public StripPart {
 public:
  /// Writes the logits of all keys of the hull, in every plane that the score has.
  virtual void logits(const StripRows<T>& rows, T* strip, Workspace& space) const = 0;
  /// `gradient` is 0 outside of a row's keys. Also called for rows without keys.
  virtual void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) const = 0;

  std::int64_t planes = 0;  ///< their number, if each dimension of the values has logits of its own; otherwise 0
};

/// A term on strips: changes logits before the softmax, or weights after it.
template <class T>
class StripTerm : public StripPart {
 public:
  /// to = f(from) at the visible pairs. `to` may be `from`.
  virtual void forward(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const = 0;
  /// Replaces `gradient`, that of f(from), by that of `from`. Adds to the buffers `gradients` where they are defined.
  /// Outside of a row's keys `gradient` is 0 and stays 0.
  virtual void backward(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor> gradients,
                        Workspace& space) const = 0;

  std::int64_t saved_strips = 0;  ///< size of StripRows::saved
};

/// A part of the output of a strip's queries, from their weights.
template <class T>
class StripValues : public StripPart {
 public:
  /// The first of a call's StripValues writes out [rows, D] in interval 0; all others add to it.
  virtual void forward(const StripRows<T>& rows, const T* weights, MatrixView<T> out, Workspace& space) const = 0;
  /// g is the gradient of the output. The first of a call's StripValues writes `gradient`, that of the weights, for all
  /// keys of the hull; all others add to it. Also called for rows without keys.
  virtual void backward(const StripRows<T>& rows, const T* weights, MatrixView<const T> g, T* gradient,
                        Workspace& space) const = 0;
};

/// A part that acts on some heads, as a model of which each thread has a copy. `Kind` is one of the classes above.
template <class Kind>
struct PartOfCall {
  std::shared_ptr<const Kind> model;
  std::unique_ptr<Kind> (*copy)(const Kind& model);
  std::vector<StripInput> inputs;  ///< those of the part; its copies list none
  HeadRange heads = {};
  bool may_change_zeros = false;  ///< see StripPart
  bool acts_on(std::int64_t head) const { return heads.first <= head && head < heads.first + heads.count; }

  template <class Strips>
  static PartOfCall of(Strips strips) {
    std::vector<StripInput> inputs = std::exchange(strips.inputs, {});
    auto copy = [](const Kind& model) -> std::unique_ptr<Kind> {
      return std::make_unique<Strips>(static_cast<const Strips&>(model));
    };
    return {std::make_shared<const Strips>(std::move(strips)), copy, std::move(inputs)};
  }
};

/// Constructs a term's form on strips, for f32 or f64. StripForm::of<MyStrips>(arguments...) is one that constructs
/// MyStrips<T>(arguments...), where the class template MyStrips<T> derives from StripTerm<T> and can be copied.
struct StripForm {
  std::function<PartOfCall<StripTerm<float>>()> f32;
  std::function<PartOfCall<StripTerm<double>>()> f64;

  template <template <class> class Strips, class... Arguments>
  static StripForm of(const Arguments&... arguments) {
    return {[=] { return PartOfCall<StripTerm<float>>::of(Strips<float>(arguments...)); },
            [=] { return PartOfCall<StripTerm<double>>::of(Strips<double>(arguments...)); }};
  }
};

/// The second base class of a CustomTerm that the fused engine computes on strips.
class WithStrips {
 public:
  virtual ~WithStrips() = default;
  /// The term for one call of this shape. `in` and `captured` are those of CustomTerm::composed(). A gradient for each
  /// head, say, has the buffer {captured[0], {shape.parts, shape.sentences, shape.heads}}, in which every item has a
  /// place of its own: threads that add to one place would race.
  virtual StripForm strips(const AttentionContext& in, const Captured& captured, const StripShape& shape) const = 0;
};

// ---- Loops over keys

/// body(j, count) for each vector of the keys first ≤ j < end. `count` is as in for_vectors().
template <class T, class Body>
FOVEA_INLINE void for_keys(std::int64_t first, std::int64_t end, Body&& body) {
  for_vectors<T>(end - first, [&](std::int64_t j, auto count) { body(first + j, count); });
}

/// Σ_j row[j] over first ≤ j < end.
template <class T>
FOVEA_INLINE T sum_of(const T* row, std::int64_t first, std::int64_t end) {
  if (first == end) return 0;
  return sum_of_vectors<T>(end - first,
                           [&](std::int64_t j, auto count) { return load_vector(row + first + j, count); });
}

/// The numbers of the keys from j on, as a vector.
template <class T>
Vec<T> key_numbers(std::int64_t j) {
  return Vec<T>(static_cast<T>(j)) + lane_numbers<T>();
}

/// Sets to 0 what lies inside the hull and outside of a row's keys.
template <class T>
void clear_outside(const StripRows<T>& rows, T* strip) {
  for (std::int64_t r = 0; r < rows.count; ++r) {
    T* row = strip + r * rows.stride;
    std::fill(row + rows.hull_first, row + std::max(rows.hull_first, rows.first[r]), T(0));
    std::fill(row + rows.end[r], row + std::max(rows.hull_end, rows.end[r]), T(0));
  }
}

// ---- Tensors of a call

/// x with its last dimension broadcast to `keys`, and contiguous rows.
Tensor rows_of_keys(const Tensor& x, std::int64_t keys);

/// The offset of element (b, h, i) in a tensor of rank 3 or more whose first three dimensions broadcast to [B, H, I].
inline std::int64_t broadcast_offset(const Tensor& x, std::int64_t b, std::int64_t h, std::int64_t i) {
  return (x.shape()[0] > 1 ? b * x.strides()[0] : 0) + (x.shape()[1] > 1 ? h * x.strides()[1] : 0) +
         (x.shape()[2] > 1 ? i * x.strides()[2] : 0);
}

/// The matrix [X, n] of one head in a tensor that broadcasts to [B, H, X, n] and has contiguous rows.
template <class T>
MatrixView<const T> head_matrix(const Tensor& x, const StripItem& item) {
  return {x.data<T>() + broadcast_offset(x, item.sentence, item.head, 0), x.strides()[2], 1};
}
/// The matrix [X, n] of one item in a buffer of query_input() or key_input().
template <class T>
MatrixView<T> gradient_matrix(const Tensor& buffer, const StripItem& item) {
  const int d = buffer.rank() - 4;
  const std::int64_t offset = d ? item.part * buffer.strides()[0] : 0;
  return {buffer.mutable_data<T>() + offset + item.sentence * buffer.strides()[d] + item.head * buffer.strides()[d + 1],
          buffer.strides()[d + 2], 1};
}

/// The stride of a strip's rows, in elements: whole vectors, and not a multiple of 1024 bytes, because then rows would
/// compete for the same lines of the cache.
template <class T>
std::int64_t strip_stride(std::int64_t keys) {
  std::int64_t stride = Panels<T>::padded(keys);
  return stride * static_cast<std::int64_t>(sizeof(T)) % 1024 == 0 ? stride + Vec<T>::lanes : stride;
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
/// [rows, n]. The item's first strip overwrites `to`. `strip` is 0 outside of a row's keys.
template <class T>
void add_key_gradient(const StripRows<T>& rows, MatrixView<T> to, std::int64_t n, T alpha, const T* strip,
                      MatrixView<const T> from, Workspace& space) {
  auto clear = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) std::fill_n(to.at(j, 0), n, T(0));
  };
  const std::int64_t first = rows.hull_first, end = rows.hull_end;
  if (rows.begins) {
    clear(0, first);
    clear(end, rows.keys);
  }
  if (first >= end) return;
  WorkspaceScope taken(space);
  packed_matrix(space, from, rows.count, n)
      .multiply(end - first, alpha, {strip + first, 1, rows.stride}, rows.begins ? T(0) : T(1), to.from(first, 0));
}

}  // namespace fovea
