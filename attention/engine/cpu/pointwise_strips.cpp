// Pointwise terms on strips: finds the rows of captures and the memory of their gradients, and calls the formula's
// loops (attention/formula/pointwise.h).
#include "attention/engine/cpu/strip_parts.h"
#include "attention/engine/cpu/strips.h"

namespace fovea {

namespace {

/// A capture's numbers as a tensor that broadcasts to [B, H, I, X] and has contiguous rows, where X is 1, J or
/// 2 clip + 1. A room for its gradient has one row for each query, or for each part of a head's queries: a term then
/// adds up the gradients of the part's queries.
class StripCapture {
 public:
  StripCapture(const Capture& capture, const StripShape& s) : capture_(capture) {
    const Tensor& x = capture.value.value();
    switch (capture.per) {
      case Per::head:
        value_ = as_rank(x.unsqueeze(-1), 3).unsqueeze(-1);
        break;
      case Per::query:
        value_ = as_rank(x, 3).unsqueeze(-1);
        break;
      case Per::key:
        value_ = rows_of_keys(as_rank(x, 3), s.keys).unsqueeze(-2);
        break;
      case Per::pair:
        value_ = rows_of_keys(as_rank(x, 4), s.keys);
        break;
      case Per::offset:
        value_ = with_unit_rows(as_rank(x, 4));
        break;
      case Per::query_vector:
      case Per::key_vector:
      case Per::whole:
        break;  // check_plan() lets no formula read one
    }
    row_of_each_query_ =
        capture.per == Per::query || capture.per == Per::pair || (capture.per == Per::offset && value_.size(2) > 1);
    heads_ = s.heads;
    sentences_ = s.sentences;
    queries_ = s.queries;
  }

  const Variable& variable() const { return capture_.value; }
  bool is_table() const { return capture_.per == Per::offset; }

  Tensor room(const StripShape& s) const {
    Shape shape = row_of_each_query_ ? Shape{s.sentences, s.heads, s.queries} : Shape{s.parts, s.sentences, s.heads};
    if (is_table() && !row_of_each_query_) shape.push_back(1);
    if (is_per_key(capture_.per)) shape.push_back(value_.size(3));
    return Tensor::zeros(shape, value_.dtype());
  }

  /// Writes to `to` what each row of a strip reads. `room` is null if no gradient is wanted.
  template <class T>
  void rows(const StripRows<T>& rows, T* room, CaptureRow<T>* to) const {
    const T* numbers = value_.data<T>() + broadcast_offset(value_, rows.sentence, rows.head, rows.first_query);
    const std::int64_t step = value_.shape()[2] > 1 ? value_.strides()[2] : 0,
                       room_step = row_of_each_query_ ? value_.shape()[3] : 0;
    T* gradients = room ? room_of_row(rows, 0, room) : nullptr;
    for (std::int64_t r = 0; r < rows.count; ++r, numbers += step) {
      to[r] = {numbers, gradients};
      if (gradients) gradients += room_step;
    }
  }

  /// Whether all rows of a strip stay inside their tables.
  template <class T>
  bool holds(const StripRows<T>& rows) const {
    if (!is_table()) return true;
    for (std::int64_t r = 0; r < rows.count; ++r)
      if (!holds(rows, r)) return false;
    return true;
  }

  /// What row r reads, indexed by the key, where `table` is its table. A row that reaches beyond the table is expanded
  /// to `scratch`, of scratch_size() elements: numbers, then gradients. finish() must follow then.
  template <class T>
  CaptureRow<T> by_key(const StripRows<T>& rows, std::int64_t r, CaptureRow<T> table, T* scratch) const {
    const std::int64_t shift = capture_.clip - rows.query_position(r);  // the entry of key j is table[j + shift]
    if (holds(rows, r)) return {table.numbers + shift, table.gradients ? table.gradients + shift : nullptr};
    const auto [begin, end] = inner_keys(rows, r, capture_.clip);
    std::fill(scratch + rows.first[r], scratch + begin, table.numbers[0]);
    std::copy(table.numbers + begin + shift, table.numbers + end + shift, scratch + begin);
    std::fill(scratch + end, scratch + rows.end[r], table.numbers[offsets() - 1]);
    T* expanded = scratch + scratch_size(rows.keys) / 2;
    if (table.gradients) std::fill(expanded + rows.first[r], expanded + rows.end[r], T(0));
    return {scratch, table.gradients ? expanded : nullptr};
  }

  /// Adds the gradients of an expanded row to those of the table.
  template <class T>
  void finish(const StripRows<T>& rows, std::int64_t r, T* table, const T* scratch) const {
    if (!table || holds(rows, r)) return;
    const auto [begin, end] = inner_keys(rows, r, capture_.clip);
    T* aligned = table + capture_.clip - rows.query_position(r);
    const T* expanded = scratch + scratch_size(rows.keys) / 2;
    for_keys<T>(begin, end, [&](std::int64_t j, auto count) {
      store_vector(load_vector(aligned + j, count) + load_vector(expanded + j, count), aligned + j, count);
    });
    table[0] += sum_of(expanded, rows.first[r], begin);
    table[offsets() - 1] += sum_of(expanded, end, rows.end[r]);
  }

  std::int64_t scratch_size(std::int64_t keys) const { return is_table() ? 2 * (keys + Vec<float>::lanes) : 0; }

 private:
  std::int64_t offsets() const { return 2 * capture_.clip + 1; }

  template <class T>
  bool holds(const StripRows<T>& rows, std::int64_t r) const {
    const std::int64_t position = rows.query_position(r);
    return rows.first[r] >= rows.end[r] ||
           (position - capture_.clip <= rows.first[r] && rows.end[r] <= position + capture_.clip + 1);
  }

  template <class T>
  T* room_of_row(const StripRows<T>& rows, std::int64_t r, T* room) const {
    const std::int64_t row = row_of_each_query_ ? (rows.sentence * heads_ + rows.head) * queries_ + rows.first_query + r
                                                : (rows.part * sentences_ + rows.sentence) * heads_ + rows.head;
    return room + row * value_.size(3);
  }

  Capture capture_;
  Tensor value_;
  bool row_of_each_query_;
  std::int64_t sentences_, heads_, queries_;
};

template <class T>
class PointwiseStrips : public StripTerm<T> {
 public:
  PointwiseStrips(PointwiseFormula formula, const std::vector<Capture>& captures, const StripShape& shape)
      : formula_(std::move(formula)) {
    for (const Capture& capture : captures) captures_.emplace_back(capture, shape);
  }

  std::vector<Variable> inputs() const override {
    std::vector<Variable> all;
    for (const StripCapture& capture : captures_) all.push_back(capture.variable());
    return all;
  }
  Tensor gradient_room(std::size_t k, const StripShape& shape) const override { return captures_[k].room(shape); }
  bool takes_pieces() const override { return true; }

  void forward(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const override {
    for_blocks(rows, {}, space, [&](const PairRows<T>& block, std::int64_t at, const CaptureRow<T>* captured) {
      formula_.template kernels<T>().forward(formula_.functor(), block, from + at, to + at, captured);
    });
  }

  void backward(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor> rooms,
                Workspace& space) const override {
    for_blocks(rows, rooms, space, [&](const PairRows<T>& block, std::int64_t at, const CaptureRow<T>* captured) {
      formula_.template kernels<T>().backward(formula_.functor(), block, from + at, gradient + at, captured);
    });
  }

 private:
  /// body(block of rows, offset of its first row in the strip, captures' rows). A block is the whole strip or, where
  /// rows reach beyond a table, one row.
  template <class Body>
  void for_blocks(const StripRows<T>& rows, std::span<Tensor> rooms, Workspace& space, const Body& body) const {
    const auto n = static_cast<std::int64_t>(captures_.size());
    auto* captured = space.take<CaptureRow<T>>(n * rows.count);  // [captures, rows]
    bool at_once = true;
    for (std::int64_t k = 0; k < n; ++k) {
      const auto at = static_cast<std::size_t>(k);
      T* room = rooms.empty() || !rooms[at].defined() ? nullptr : rooms[at].template mutable_data<T>();
      captures_[at].rows(rows, room, captured + k * rows.count);
      at_once = at_once && captures_[at].holds(rows);
    }
    if (!at_once) return for_rows(rows, captured, space, body);
    for (std::int64_t k = 0; k < n; ++k) {
      const StripCapture& capture = captures_[static_cast<std::size_t>(k)];
      CaptureRow<T>* row = captured + k * rows.count;
      for (std::int64_t r = 0; capture.is_table() && r < rows.count; ++r)
        row[r] = capture.by_key(rows, r, row[r], static_cast<T*>(nullptr));
    }
    body(PairRows<T>{rows.count, rows.stride, rows.first, rows.end, rows.query_position(0)}, std::int64_t{0},
         static_cast<const CaptureRow<T>*>(captured));
  }

  template <class Body>
  void for_rows(const StripRows<T>& rows, const CaptureRow<T>* captured, Workspace& space, const Body& body) const {
    const std::size_t n = captures_.size();
    auto* of_row = space.take<CaptureRow<T>>(static_cast<std::int64_t>(n));
    T** scratch = space.take<T*>(static_cast<std::int64_t>(n));
    for (std::size_t k = 0; k < n; ++k) scratch[k] = space.take<T>(captures_[k].scratch_size(rows.keys));
    for (std::int64_t r = 0; r < rows.count; ++r) {
      auto table = [&](std::size_t k) { return captured[static_cast<std::int64_t>(k) * rows.count + r]; };
      for (std::size_t k = 0; k < n; ++k)
        of_row[k] = captures_[k].is_table() ? captures_[k].by_key(rows, r, table(k), scratch[k]) : table(k);
      body(PairRows<T>{1, rows.stride, rows.first + r, rows.end + r, rows.query_position(r)}, r * rows.stride,
           static_cast<const CaptureRow<T>*>(of_row));
      for (std::size_t k = 0; k < n; ++k)
        if (captures_[k].is_table()) captures_[k].finish(rows, r, table(k).gradients, scratch[k]);
    }
  }

  PointwiseFormula formula_;
  std::vector<StripCapture> captures_;
};

}  // namespace

template <class T>
std::unique_ptr<StripTerm<T>> pointwise_strips(const PointwiseFormula& formula, const std::vector<Capture>& captures,
                                               const StripShape& shape) {
  return std::make_unique<PointwiseStrips<T>>(formula, captures, shape);
}
template std::unique_ptr<StripTerm<float>> pointwise_strips(const PointwiseFormula&, const std::vector<Capture>&,
                                                            const StripShape&);
template std::unique_ptr<StripTerm<double>> pointwise_strips(const PointwiseFormula&, const std::vector<Capture>&,
                                                             const StripShape&);

}  // namespace fovea
