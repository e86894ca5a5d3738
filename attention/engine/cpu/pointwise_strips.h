/// Pointwise terms for the fused engine: a functor f(z, position, captures...) is evaluated on vectors of keys. Its
/// derivatives are computed with dual numbers. strips.h explains strips.
#pragma once
#include <array>
#include <tuple>
#include <utility>

#include "attention/engine/cpu/strips.h"
#include "tensor/formula/dual.h"

namespace fovea {

/// The pair at which a pointwise functor is evaluated. Positions are in tokens, counted from 0.
template <class T>
struct Position {
  T query, key;
};

/// x with leading dimensions of 1 added, such that it has `rank` dimensions.
inline Tensor as_rank(const Tensor& x, int rank) {
  Shape shape;
  for (int d = x.rank(); d < rank; ++d) shape.push_back(1);
  for (std::int64_t size : x.shape()) shape.push_back(size);
  return x.reshape(shape);
}

/// x with leading dimensions of 1 added, such that it has the rank of `shape`. Throws Error, which names the capture,
/// unless x broadcasts to `shape`.
inline Tensor fitting(const char* capture, const Tensor& x, const Shape& shape) {
  require(x.rank() <= shape.rank() && broadcast("attention", x.shape(), shape) == shape,
          "attention: a {} capture is {}; it must broadcast to {}", capture, x, shape);
  return as_rank(x, shape.rank());
}

/// x with its last dimension broadcast to `keys`, and contiguous rows.
inline Tensor rows_of_keys(const Tensor& x, std::int64_t keys) {
  Shape shape = x.shape();
  shape[-1] = keys;
  return with_unit_rows(x.size(-1) == keys ? x : x.expand(shape).contiguous());
}

// ---- Captures
//
// A capture is a tensor that the functor reads besides z and the position, see method.h. These classes read it row by
// row of a strip and accumulate its gradient. For each capture there is a class (QueryStrips, KeyStrips, ...) with
// room(), the memory for the gradient; scratch(), the number of elements of temporary memory; and of_strip(), the
// capture as seen by one strip. That has row(r), with load() and add() for vectors of keys, and finish(r, row), which
// stores the row's gradient.

/// A capture with one number for the whole row.
template <class T>
struct RowNumber {
  T number;
  Vec<T> sum = Vec<T>(T(0));  ///< of the gradient over the row's keys, lane by lane

  template <class Count>
  FOVEA_INLINE Vec<T> load(std::int64_t, Count) const {
    return Vec<T>(number);
  }
  template <class Count>
  FOVEA_INLINE void add(std::int64_t, Count count, Vec<T> gradient) {
    sum += filled(gradient, count, T(0));
  }
};

/// A capture with one number per key.
template <class T>
struct RowOfKeys {
  const T* numbers;
  T* gradients;  ///< added to; null: not wanted

  template <class Count>
  FOVEA_INLINE Vec<T> load(std::int64_t j, Count count) const {
    return load_vector(numbers + j, count);
  }
  template <class Count>
  FOVEA_INLINE void add(std::int64_t j, Count count, Vec<T> gradient) {
    if (gradients) store_vector(load_vector(gradients + j, count) + gradient, gradients + j, count);
  }
};

/// The memory of a capture for one strip. The numbers of row r begin at numbers + r · step, their gradients at
/// gradients + r · gradient_step.
template <class T>
struct CaptureOfRows {
  const T* numbers;
  std::int64_t step;
  T* gradients;  ///< null: not wanted
  std::int64_t gradient_step;
};
template <class T>
struct NumbersOfRows : CaptureOfRows<T> {
  FOVEA_INLINE RowNumber<T> row(std::int64_t r) const { return {this->numbers[r * this->step]}; }
  FOVEA_INLINE void finish(std::int64_t r, const RowNumber<T>& row) const {
    if (this->gradients) this->gradients[r * this->gradient_step] += horizontal_sum(row.sum);
  }
};
template <class T>
struct KeysOfRows : CaptureOfRows<T> {
  FOVEA_INLINE RowOfKeys<T> row(std::int64_t r) const {
    return {this->numbers + r * this->step, this->gradients ? this->gradients + r * this->gradient_step : nullptr};
  }
  FOVEA_INLINE void finish(std::int64_t, const RowOfKeys<T>&) const {}
};

/// Distance between queries in a tensor that broadcasts to [B, H, I, ...], in elements; 0 if all queries share a row.
inline std::int64_t query_step(const Tensor& x) { return x.shape()[2] > 1 ? x.strides()[2] : 0; }
/// The numbers of the strip's first query in a tensor that broadcasts to [B, H, I, ...].
template <class T>
const T* first_row(const Tensor& x, const StripRows<T>& rows) {
  return x.data<T>() + broadcast_offset(x, rows.sentence, rows.head, rows.first_query);
}
/// The same of a room for gradients, for writing; null if it is undefined.
template <class T>
T* first_row_of_room(const Tensor& room, const StripRows<T>& rows) {
  if (!room.defined()) return nullptr;
  return room.mutable_data<T>() + broadcast_offset(room, rows.sentence, rows.head, rows.first_query);
}

/// PerQuery, [B, H, I]. The gradient is summed over keys.
struct QueryStrips {
  Tensor value;
  std::int64_t scratch(const StripShape&) const { return 0; }
  Tensor room(const StripShape& s) const { return Tensor::zeros({s.sentences, s.heads, s.queries}, value.dtype()); }

  template <class T>
  NumbersOfRows<T> of_strip(const StripRows<T>& rows, T*, const Tensor& room) const {
    return {{first_row(value, rows), query_step(value), first_row_of_room(room, rows), 1}};
  }
};

/// PerHead, [1, H, 1]. The gradient is summed over keys and a part's queries.
struct HeadStrips {
  Tensor value;
  std::int64_t scratch(const StripShape&) const { return 0; }
  Tensor room(const StripShape& s) const { return Tensor::zeros({s.parts, s.sentences, s.heads}, value.dtype()); }

  template <class T>
  NumbersOfRows<T> of_strip(const StripRows<T>& rows, T*, const Tensor& room) const {
    T* gradient = nullptr;
    if (room.defined()) gradient = room.mutable_data<T>() + broadcast_offset(room, rows.part, rows.sentence, rows.head);
    return {{value.data<T>() + broadcast_offset(value, 0, rows.head, 0), 0, gradient, 0}};
  }
};

/// PerKey, [B, H, J]. The gradient is summed over a part's queries.
struct KeyStrips {
  Tensor value;
  std::int64_t scratch(const StripShape&) const { return 0; }
  Tensor room(const StripShape& s) const {
    return Tensor::zeros({s.parts, s.sentences, s.heads, s.keys}, value.dtype());
  }

  template <class T>
  KeysOfRows<T> of_strip(const StripRows<T>& rows, T*, const Tensor& room) const {
    T* gradients = nullptr;
    if (room.defined())
      gradients = room.mutable_data<T>() + rows.part * room.strides()[0] + rows.sentence * room.strides()[1] +
                  rows.head * room.strides()[2];
    return {{value.data<T>() + broadcast_offset(value, rows.sentence, rows.head, 0), 0, gradients, 0}};
  }
};

/// PerPair, [B, H, I, J]. The capture and its gradient take O(I J) memory.
struct PairStrips {
  Tensor value;
  std::int64_t scratch(const StripShape&) const { return 0; }
  Tensor room(const StripShape& s) const {
    return Tensor::zeros({s.sentences, s.heads, s.queries, s.keys}, value.dtype());
  }

  template <class T>
  KeysOfRows<T> of_strip(const StripRows<T>& rows, T*, const Tensor& room) const {
    return {{first_row(value, rows), query_step(value), first_row_of_room(room, rows), rows.keys}};
  }
};

/// Σ_j row[j] over first ≤ j < end.
template <class T>
T sum_of(const T* row, std::int64_t first, std::int64_t end) {
  if (first == end) return 0;
  return sum_of_vectors<T>(end - first,
                           [&](std::int64_t j, auto count) { return load_vector(row + first + j, count); });
}

/// PerOffset, [B, H, I or 1, 2 clip + 1]. For one query the entries of consecutive keys are contiguous in the table, up
/// to the clipping at both ends. Rows that reach beyond the table are expanded to temporary memory.
struct OffsetStrips {
  Tensor value;
  std::int64_t clip;

  bool own_table() const { return value.shape()[2] > 1; }  ///< whether each query has a table of its own
  std::int64_t scratch(const StripShape& s) const { return 2 * (s.keys + Vec<float>::lanes); }
  Tensor room(const StripShape& s) const {
    std::int64_t size = 2 * clip + 1;
    return own_table() ? Tensor::zeros({s.sentences, s.heads, s.queries, size}, value.dtype())
                       : Tensor::zeros({s.parts, s.sentences, s.heads, 1, size}, value.dtype());
  }

  /// The tables as seen by one strip.
  template <class T>
  struct Tables {
    const StripRows<T>& rows;
    std::int64_t clip;
    CaptureOfRows<T> tables;
    T* scratch;  ///< an expanded row of entries, then one of gradients

    RowOfKeys<T> row(std::int64_t r) const {
      const T* table = tables.numbers + r * tables.step;
      const auto [begin, end] = inner_keys(rows, r, clip);
      const T* aligned = table + clip - rows.query_position(r);  // aligned[j] is the entry of offset j − i
      if (begin == rows.first[r] && end == rows.end[r])
        return {aligned, tables.gradients ? gradient_table(r) + (aligned - table) : nullptr};
      T* gradients = scratch + rows.keys + Vec<float>::lanes;
      if (tables.gradients) std::fill(gradients + rows.first[r], gradients + rows.end[r], T(0));
      std::fill(scratch + rows.first[r], scratch + begin, table[0]);
      std::copy(aligned + begin, aligned + end, scratch + begin);
      std::fill(scratch + end, scratch + rows.end[r], table[2 * clip]);
      return {scratch, tables.gradients ? gradients : nullptr};
    }
    void finish(std::int64_t r, const RowOfKeys<T>& row) const {
      const auto [begin, end] = inner_keys(rows, r, clip);
      if (!tables.gradients || (begin == rows.first[r] && end == rows.end[r]))
        return;  // add() wrote to the table itself
      T *table = gradient_table(r), *aligned = table + clip - rows.query_position(r);
      const T* from = row.gradients;
      for_keys<T>(begin, end, [&](std::int64_t j, auto count) {
        store_vector(load_vector(aligned + j, count) + load_vector(from + j, count), aligned + j, count);
      });
      table[0] += sum_of(from, rows.first[r], begin);
      table[2 * clip] += sum_of(from, end, rows.end[r]);
    }

   private:
    T* gradient_table(std::int64_t r) const { return tables.gradients + r * tables.gradient_step; }
  };

  template <class T>
  Tables<T> of_strip(const StripRows<T>& rows, T* scratch, const Tensor& room) const {
    const std::int64_t size = 2 * clip + 1;
    T* gradients = nullptr;
    if (room.defined())
      gradients = own_table()
                      ? first_row_of_room(room, rows)
                      : room.mutable_data<T>() +
                            ((rows.part * room.shape()[1] + rows.sentence) * room.shape()[2] + rows.head) * size;
    return {rows, clip, {first_row(value, rows), query_step(value), gradients, own_table() ? size : 0}, scratch};
  }
};

// ---- The term

/// The term with functor F. Captures are classes such as QueryStrips. `variables` are the variables whose values the
/// captures read, in the same order.
template <class F, class... Captures>
class PointwiseStrips : public StripTermOf<PointwiseStrips<F, Captures...>> {
 public:
  PointwiseStrips(const F& f, std::array<Variable, sizeof...(Captures)> variables, Captures... captures)
      : f_(f), variables_(std::move(variables)), captures_(std::move(captures)...) {}

  std::vector<Variable> inputs() const override { return {variables_.begin(), variables_.end()}; }
  Tensor gradient_room(std::size_t k, const StripShape& shape) const override {
    Tensor room;
    for_captures([&](std::size_t place, const auto& capture) {
      if (place == k) room = capture.room(shape);
    });
    return room;
  }
  bool takes_pieces() const override { return true; }

  template <class T>
  void forward_strip(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const {
    forward_rows(rows, from, to, take_scratch<T>(rows, space), all);
  }

  template <class T>
  void backward_strip(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor> rooms,
                      Workspace& space) const {
    backward_rows(rows, from, gradient, take_scratch<T>(rows, space), rooms, all);
  }

 private:
  static constexpr std::size_t captures = sizeof...(Captures);
  static constexpr std::index_sequence_for<Captures...> all{};

  template <class Body>
  void for_captures(Body&& body) const {
    std::size_t place = 0;
    std::apply([&](const auto&... capture) { (body(place++, capture), ...); }, captures_);
  }

  template <class T>
  std::array<T*, captures> take_scratch(const StripRows<T>& rows, Workspace& space) const {
    std::array<T*, captures> scratch{};
    StripShape shape{0, 0, 0, rows.keys, 0, 0};
    for_captures([&](std::size_t k, const auto& capture) { scratch[k] = space.take<T>(capture.scratch(shape)); });
    return scratch;
  }

  template <class T, std::size_t... k>
  void forward_rows(const StripRows<T>& rows, const T* from, T* to, const std::array<T*, captures>& scratch,
                    std::index_sequence<k...>) const {
    using V = Vec<T>;
    const std::tuple strips{std::get<k>(captures_).of_strip(rows, scratch[k], Tensor())...};
    for (std::int64_t r = 0; r < rows.count; ++r, from += rows.stride, to += rows.stride) {
      const std::tuple captured{std::get<k>(strips).row(r)...};
      const V query(static_cast<T>(rows.query_position(r)));
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        Position<V> position{query, V(static_cast<T>(j)) + lane_numbers<T>()};
        store_vector(f_(load_vector(from + j, count), position, std::get<k>(captured).load(j, count)...), to + j,
                     count);
      });
    }
  }

  template <class T, std::size_t... k>
  void backward_rows(const StripRows<T>& rows, const T* from, T* gradient, const std::array<T*, captures>& scratch,
                     [[maybe_unused]] std::span<Tensor> rooms, std::index_sequence<k...>) const {
    using V = Vec<T>;
    using D = Dual<V>;
    const std::tuple strips{std::get<k>(captures_).of_strip(rows, scratch[k], rooms[k])...};
    for (std::int64_t r = 0; r < rows.count; ++r, from += rows.stride, gradient += rows.stride) {
      std::tuple captured{std::get<k>(strips).row(r)...};
      const V query(static_cast<T>(rows.query_position(r)));
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        const V key = V(static_cast<T>(j)) + lane_numbers<T>(), z = load_vector(from + j, count),
                g = load_vector(gradient + j, count);
        const std::array<V, captures> x{std::get<k>(captured).load(j, count)...};
        const Position<D> position{D(query), D(key)};
        // The gradient of z for wrt = −1, of capture number wrt otherwise. All of them are computed before any is
        // stored, so that the compiler computes their common subexpressions once.
        auto gradient_of = [&](auto wrt) {
          constexpr int direction = decltype(wrt)::value;
          const D y = f_(D::input(z, direction == -1), position, D::input(x[k], direction == int{k})...);
          return y.is_constant ? y.tangent : gradient_times(g, y.tangent);
        };
        const V of_z = gradient_of(std::integral_constant<int, -1>{});
        [[maybe_unused]] const std::array<V, captures> of_captures{
            gradient_of(std::integral_constant<int, int{k}>{})...};
        (std::get<k>(captured).add(j, count, of_captures[k]), ...);
        store_vector(of_z, gradient + j, count);
      });
      (std::get<k>(strips).finish(r, std::get<k>(captured)), ...);
    }
  }

  F f_;
  std::array<Variable, captures> variables_;
  std::tuple<Captures...> captures_;
};

}  // namespace fovea
