/// Pointwise terms and normalised weights on strips.
#pragma once
#include "attention/engine/cpu/strips.h"
#include "attention/engine/lowered.h"

namespace fovea {

/// A capture's numbers as rows that broadcast to [B, H, I, n]. The buffer of its gradient has one row for each query,
/// or for each part of a head's queries: a term then adds up the gradients of the part's queries.
class StripCapture {
 public:
  StripCapture(const LoweredCapture& capture, const StripShape& s)
      : indexing_(capture.indexing),
        clip_(capture.clip),
        sentences_(s.sentences),
        heads_(s.heads),
        queries_(s.queries) {
    const bool reads_all = indexing_ == Indexing::key || indexing_ == Indexing::pair;
    numbers_ = rows_of_keys(capture.numbers, reads_all ? s.keys : capture.numbers.size(3));
    of_each_query_ = indexing_ != Indexing::head && indexing_ != Indexing::key && indexing_ != Indexing::offset;
  }

  StripInput input(const Variable& variable, const StripShape& s) const {
    Shape buffer = of_each_query_ ? Shape{s.sentences, s.heads, s.queries} : Shape{s.parts, s.sentences, s.heads};
    if (indexing_ == Indexing::offset) buffer.push_back(1);
    if (is_per_key()) buffer.push_back(n());
    return {variable, buffer};
  }

  /// Writes to `to` what each row of a strip reads, indexed by the key. Returns whether all rows stay inside of the
  /// capture's rows, which may end before the last key. `gradient` is the buffer, or null if it is not wanted.
  template <class T>
  bool find_rows(const StripRows<T>& rows, T* gradient, CaptureRow<T>* to) const {
    const T* numbers = numbers_.data<T>() + broadcast_offset(numbers_, rows.sentence, rows.head, rows.first_query);
    const std::int64_t step = numbers_.size(2) > 1 ? numbers_.strides()[2] : 0, buffer_step = of_each_query_ ? n() : 0;
    if (gradient)
      gradient += n() * (of_each_query_ ? (rows.sentence * heads_ + rows.head) * queries_ + rows.first_query
                                        : (rows.part * sentences_ + rows.sentence) * heads_ + rows.head);
    bool all = true;
    for (std::int64_t r = 0; r < rows.count; ++r, numbers += step) {
      const std::int64_t shift = shift_of(rows, r);
      to[r] = {numbers + shift, gradient ? gradient + shift : nullptr};
      if (gradient) gradient += buffer_step;
      all = all && holds(rows, r);
    }
    return all;
  }

  /// The row that `rows` reads, a single one. Where it reaches beyond the capture's row, it is expanded to `scratch`
  /// [2, stride]: numbers, then gradients. collect() must follow then.
  template <class T>
  CaptureRow<T> expanded(const StripRows<T>& rows, CaptureRow<T> row, T* scratch) const {
    if (holds(rows, 0)) return row;
    const std::int64_t shift = shift_of(rows, 0);
    const auto [begin, end] = inner_keys(rows);
    T* gradients = scratch + rows.stride;
    std::fill(scratch + rows.first[0], scratch + begin, row.numbers[-shift]);
    std::copy(row.numbers + begin, row.numbers + end, scratch + begin);
    std::fill(scratch + end, scratch + rows.end[0], row.numbers[n() - 1 - shift]);
    if (row.gradients) std::fill(gradients + rows.first[0], gradients + rows.end[0], T(0));
    return {scratch, row.gradients ? gradients : nullptr};
  }

  /// Adds the gradients of an expanded row to those of the capture.
  template <class T>
  void collect(const StripRows<T>& rows, T* gradients, const T* scratch) const {
    if (!gradients || holds(rows, 0)) return;
    const std::int64_t shift = shift_of(rows, 0);
    const auto [begin, end] = inner_keys(rows);
    const T* expanded = scratch + rows.stride;
    for_keys<T>(begin, end, [&](std::int64_t j, auto count) {
      store_vector(load_vector(gradients + j, count) + load_vector(expanded + j, count), gradients + j, count);
    });
    gradients[-shift] += sum_of(expanded, rows.first[0], begin);
    gradients[n() - 1 - shift] += sum_of(expanded, end, rows.end[0]);
  }

 private:
  bool is_per_key() const { return indexing_ != Indexing::head && indexing_ != Indexing::query; }
  std::int64_t n() const { return numbers_.shape()[3]; }

  /// Key j of row r reads the entry clip(j + shift, 0, n − 1).
  template <class T>
  std::int64_t shift_of(const StripRows<T>& rows, std::int64_t r) const {
    const bool by_offset = indexing_ == Indexing::offset || indexing_ == Indexing::query_offset;
    return by_offset ? clip_ - rows.query_position(r) : 0;
  }
  /// Whether row r reads no entry twice.
  template <class T>
  bool holds(const StripRows<T>& rows, std::int64_t r) const {
    const std::int64_t shift = shift_of(rows, r), first = rows.first[r], end = rows.end[r];
    return !is_per_key() || first >= end || (first + shift >= 0 && end + shift <= n());
  }
  /// The keys of a single row that read an entry of their own: the interval first ≤ j < second.
  template <class T>
  std::pair<std::int64_t, std::int64_t> inner_keys(const StripRows<T>& row) const {
    const std::int64_t shift = shift_of(row, 0), begin = std::clamp(-shift, row.first[0], row.end[0]);
    return {begin, std::clamp(n() - shift, begin, row.end[0])};
  }

  Indexing indexing_;
  std::int64_t clip_, sentences_, heads_, queries_;
  Tensor numbers_;
  bool of_each_query_;
};

/// A pointwise formula: finds the rows of captures and the memory of their gradients, and calls the formula's loops
/// (attention/engine/cpu/pointwise_loops.h).
template <class T>
class PointwiseStrips : public StripTerm<T> {
 public:
  PointwiseStrips(const PointwiseFormula& formula, const std::vector<LoweredCapture>& captures, const StripShape& s)
      : formula_(formula) {
    for (const LoweredCapture& capture : captures) {
      captures_.emplace_back(capture, s);
      this->inputs.push_back(captures_.back().input(capture.value, s));
    }
    this->by_interval = true;
  }

  void forward(const StripRows<T>& rows, const T* from, T* to, Workspace& space) const override {
    for_blocks(rows, {}, space, [&](const PairRows<T>& block, std::int64_t at, const CaptureRow<T>* captured) {
      formula_.template kernels<T>().forward(formula_.functor(), block, from + at, to + at, captured);
    });
  }
  void backward(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor> gradients,
                Workspace& space) const override {
    for_blocks(rows, gradients, space, [&](const PairRows<T>& block, std::int64_t at, const CaptureRow<T>* captured) {
      formula_.template kernels<T>().backward(formula_.functor(), block, from + at, gradient + at, captured);
    });
  }

 private:
  /// body(block of rows, offset of its first row in the strip, captures' rows). A block is the whole strip or, where
  /// rows reach beyond those of a capture, one row.
  template <class Body>
  void for_blocks(const StripRows<T>& rows, std::span<Tensor> gradients, Workspace& space, const Body& body) const {
    const std::size_t n = captures_.size();
    const auto size = static_cast<std::int64_t>(n);
    auto* captured = space.take<CaptureRow<T>>(size * rows.count);  // [captures, rows]
    auto of_capture = [&](std::size_t k) { return captured + static_cast<std::int64_t>(k) * rows.count; };
    bool at_once = true;
    for (std::size_t k = 0; k < n; ++k) {
      T* gradient = gradients.empty() || !gradients[k].defined() ? nullptr : gradients[k].template mutable_data<T>();
      if (!captures_[k].find_rows(rows, gradient, of_capture(k))) at_once = false;
    }
    if (at_once) return body(rows.pairs(), std::int64_t{0}, static_cast<const CaptureRow<T>*>(captured));
    auto* of_row = space.take<CaptureRow<T>>(size);
    T* scratch = space.take<T>(size * 2 * rows.stride);
    auto scratch_of = [&](std::size_t k) { return scratch + static_cast<std::int64_t>(k) * 2 * rows.stride; };
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const StripRows<T> row = rows.row(r);
      for (std::size_t k = 0; k < n; ++k) of_row[k] = captures_[k].expanded(row, of_capture(k)[r], scratch_of(k));
      body(row.pairs(), r * rows.stride, static_cast<const CaptureRow<T>*>(of_row));
      for (std::size_t k = 0; k < n; ++k) captures_[k].collect(row, of_capture(k)[r].gradients, scratch_of(k));
    }
  }

  PointwiseFormula formula_;
  std::vector<StripCapture> captures_;
};

/// Renormalization: weights divided by their sum.
template <class T>
class RenormalizeStrips : public StripTerm<T> {
 public:
  void forward(const StripRows<T>& rows, const T* from, T* to, Workspace&) const override {
    for_rows(rows, from, to, [](Vec<T> w, Vec<T>, Vec<T> total, Vec<T>) { return w / total; });
  }
  /// The gradient of w / Σ w: (g − Σ g w / Σ w) / Σ w, and g / least if Σ w < least.
  void backward(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor>, Workspace&) const override {
    for_rows(rows, from, gradient, [](Vec<T>, Vec<T> g, Vec<T> total, Vec<T> mean) { return (g - mean) / total; });
  }

 private:
  /// x = change(w, x, max(Σ w, least), Σ x w / Σ w) for the keys of all rows.
  template <class Change>
  static void for_rows(const StripRows<T>& rows, const T* weights, T* x, Change&& change) {
    for (std::int64_t r = 0; r < rows.count; ++r, weights += rows.stride, x += rows.stride) {
      const std::int64_t first = rows.first[r], n = rows.end[r] - first;
      const T total = sum_of(weights, first, rows.end[r]);
      const T both = sum_of_vectors<T>(n, [&](std::int64_t j, auto count) {
        return load_vector(weights + first + j, count) * load_vector(x + first + j, count);
      });
      const bool small = total < T(Renormalization::least);
      const Vec<T> divisor(small ? T(Renormalization::least) : total), mean(small ? T(0) : both / total);
      for_keys<T>(first, rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(change(load_vector(weights + j, count), load_vector(x + j, count), divisor, mean), x + j, count);
      });
    }
  }
};

}  // namespace fovea
