/// The output from a strip's weights: products with the values, and relative values.
#pragma once
#include "attention/engine/cpu/strips.h"
#include "tensor/cpu/packing.h"
#include "tensor/cpu/tiled_gemm.h"

namespace fovea {

/// Σ_j w_ij v_j for values [B, H, J, D]: products of matrices.
template <class T>
class MatrixValues : public StripValues<T> {
 public:
  MatrixValues(const Variable& values, const StripShape& shape)
      : tensor_(with_unit_rows(values.value())), J_(values.size(2)), D_(values.size(3)) {
    this->inputs = {key_input(values, shape)};
    this->by_interval = true;
  }

  void start(const StripItem& item, Workspace& space) override {
    const MatrixView<const T> values = head_matrix<T>(tensor_, item);
    if (!item.backward) {
      values_ = packed_matrix(space, values, J_, D_, item.strips);
      return;
    }
    transposed_ = packed_matrix(space, values.transposed(), D_, J_, item.strips);
    if (this->gradients[0].defined()) gradient_ = gradient_matrix<T>(this->gradients[0], item);
  }
  void forward(const StripRows<T>& rows, const T* weights, MatrixView<T> out, Workspace&) const override {
    values_.multiply(rows.count, 1, {weights, rows.stride, 1}, rows.interval > 0, out,
                     {rows.hull_first, rows.hull_end, 0, D_});
  }
  void backward(const StripRows<T>& rows, const T* weights, MatrixView<const T> g, T* gradient,
                Workspace& space) const override {
    if (this->gradients[0].defined()) add_key_gradient(rows, gradient_, D_, T(1), weights, g, space);
    transposed_.multiply(rows.count, 1, g, 0, {gradient, rows.stride, 1}, {0, D_, rows.hull_first, rows.hull_end});
  }

 private:
  Tensor tensor_;
  std::int64_t J_, D_;
  Panels<T> values_, transposed_;
  MatrixView<T> gradient_ = {};
};

/// Σ_j w_ijd v_jd, with a plane of weights for each dimension d: a row of weights and a dimension of the values are two
/// vectors over the keys.
template <class T>
class PlaneValues : public StripValues<T> {
 public:
  PlaneValues(const Variable& values, const StripShape& shape)
      : tensor_(with_unit_rows(values.value())),
        J_(values.size(2)),
        D_(values.size(3)),
        stride_(strip_stride<T>(values.size(2))) {
    this->inputs = {key_input(values, shape)};
  }

  void start(const StripItem& item, Workspace& space) override {
    item_ = item;
    values_ = space.take<T>(D_ * stride_);
    pack(head_matrix<T>(tensor_, item).transposed(), D_, J_, values_, stride_);
    if (!item.backward) return;
    gradient_ = space.take<T>(D_ * stride_);
    std::fill_n(gradient_, D_ * stride_, T(0));
  }
  void forward(const StripRows<T>& rows, const T* weights, MatrixView<T> out, Workspace&) const override {
    for_rows(rows, [&](std::int64_t r, std::int64_t d, std::int64_t at) {
      const T *row = weights + at + rows.first[r], *value = values_ + d * stride_ + rows.first[r];
      *out.at(r, d) = sum_of_vectors<T>(rows.end[r] - rows.first[r], [&](std::int64_t j, auto count) {
        return filled(load_vector(row + j, count) * load_vector(value + j, count), count, T(0));
      });
    });
  }
  void backward(const StripRows<T>& rows, const T* weights, MatrixView<const T> g, T* gradient,
                Workspace&) const override {
    for_rows(rows, [&](std::int64_t r, std::int64_t d, std::int64_t at) {
      const Vec<T> slope(*g.at(r, d));
      const T* value = values_ + d * stride_;
      T* to = gradient_ + d * stride_;
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(fma(slope, load_vector(weights + at + j, count), load_vector(to + j, count)), to + j, count);
        store_vector(slope * load_vector(value + j, count), gradient + at + j, count);
      });
    });
  }
  void finish() override {
    if (!item_.backward || !this->gradients[0].defined()) return;
    const MatrixView<T> to = gradient_matrix<T>(this->gradients[0], item_);
    for (std::int64_t j = 0; j < J_; ++j)
      for (std::int64_t d = 0; d < D_; ++d) *to.at(j, d) = gradient_[d * stride_ + j];
  }

 private:
  /// body(row, dimension, where that row of that plane lies in a strip)
  template <class Body>
  void for_rows(const StripRows<T>& rows, Body&& body) const {
    for (std::int64_t d = 0; d < D_; ++d)
      for (std::int64_t r = 0; r < rows.count; ++r) body(r, d, (d * rows.count + r) * rows.stride);
  }

  Tensor tensor_;
  std::int64_t J_, D_, stride_;
  StripItem item_ = {};
  T *values_ = nullptr, *gradient_ = nullptr;  ///< transposed, [D, stride]
};

/// Σ_j w_ij R_r, r = clip(j − i, −clip, clip) + clip: sums each row's weights by offset, then multiplies with the table
/// R [2 clip + 1, D].
template <class T>
class RelativeStrips : public StripValues<T> {
 public:
  RelativeStrips(const Variable& table, std::int64_t clip, const StripShape& s)
      : table_(with_unit_rows(table.value())), clip_(clip) {
    this->inputs = {{table, {s.parts, s.sentences, s.whole_sentences ? 1 : s.heads, offsets(), table.size(1)}}};
    this->by_interval = true;
  }

  void forward(const StripRows<T>& rows, const T* weights, MatrixView<T> out, Workspace& space) const override {
    WorkspaceScope taken(space);
    T* by_offset = sums_by_offset(rows, weights, space);
    tiled_gemm<T>({rows.count, table_.size(1), offsets(), 1, 1}, {by_offset, offsets(), 1}, table(), out);
  }

  void backward(const StripRows<T>& rows, const T* weights, MatrixView<const T> g, T* gradient,
                Workspace& space) const override {
    if (rows.is_empty()) return;
    WorkspaceScope taken(space);
    if (const Tensor& buffer = this->gradients[0]; buffer.defined()) {
      T* by_offset = sums_by_offset(rows, weights, space);
      const std::int64_t offset = rows.part * buffer.strides()[0] + rows.sentence * buffer.strides()[1] +
                                  (buffer.size(2) > 1 ? rows.head * buffer.strides()[2] : 0);
      tiled_gemm<T>({offsets(), table_.size(1), rows.count, 1, 1}, {by_offset, 1, offsets()}, g,
                    {buffer.mutable_data<T>() + offset, table_.size(1), 1});
    }
    T* slopes = space.take<T>(rows.count * offsets());  // of the sums by offset
    tiled_gemm<T>({rows.count, offsets(), table_.size(1), 1, 0}, g, table().transposed(), {slopes, offsets(), 1});
    for (std::int64_t r = 0; r < rows.count; ++r, slopes += offsets()) {
      T* row = gradient + r * rows.stride;
      const auto [begin, end] = inner_keys(rows, r);
      const T *aligned = slopes + clip_ - rows.query_position(r), *last = slopes + 2 * clip_;
      auto add = [&](std::int64_t from, std::int64_t to, auto&& slope_of) {
        for_keys<T>(from, to, [&](std::int64_t j, auto count) {
          store_vector(load_vector(row + j, count) + slope_of(j, count), row + j, count);
        });
      };
      add(rows.first[r], begin, [=, slope = Vec<T>(*slopes)](std::int64_t, auto) { return slope; });
      add(begin, end, [=](std::int64_t j, auto count) { return load_vector(aligned + j, count); });
      add(end, rows.end[r], [=, slope = Vec<T>(*last)](std::int64_t, auto) { return slope; });
    }
  }

 private:
  std::int64_t offsets() const { return 2 * clip_ + 1; }
  MatrixView<const T> table() const { return {table_.data<T>(), table_.strides()[0], 1}; }

  /// The keys of a row with |j − i| ≤ clip: the interval first ≤ j < second.
  std::pair<std::int64_t, std::int64_t> inner_keys(const StripRows<T>& rows, std::int64_t r) const {
    const std::int64_t position = rows.query_position(r),
                       begin = std::clamp(position - clip_, rows.first[r], rows.end[r]);
    return {begin, std::clamp(position + clip_ + 1, begin, rows.end[r])};
  }

  /// The weights summed by offset, [rows, 2 clip + 1].
  T* sums_by_offset(const StripRows<T>& rows, const T* weights, Workspace& space) const {
    T* sums = space.take<T>(rows.count * offsets());
    std::fill_n(sums, rows.count * offsets(), T(0));
    for (std::int64_t r = 0; r < rows.count; ++r) {
      T* to = sums + r * offsets();
      const T* row = weights + r * rows.stride;
      const auto [begin, end] = inner_keys(rows, r);
      std::copy(row + begin, row + end, to + clip_ - rows.query_position(r) + begin);
      to[0] += sum_of(row, rows.first[r], begin);
      to[2 * clip_] += sum_of(row, end, rows.end[r]);
    }
    return sums;
  }

  Tensor table_;
  std::int64_t clip_;
};

}  // namespace fovea
