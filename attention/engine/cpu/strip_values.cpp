#include "attention/engine/cpu/strip_values.h"

namespace fovea {

namespace {

/// One plane: products of matrices.
template <class T>
class MatrixValues : public ValueWorker<T> {
 public:
  MatrixValues(const Tensor& values, const Tensor& room)
      : tensor_(values), room_(room), J_(values.size(2)), D_(values.size(3)) {}

  void start(const StripItem& item, Workspace& space) override {
    MatrixView<const T> values = head_matrix<T>(tensor_, item.sentence, item.head);
    if (!item.backward) {
      values_ = packed_matrix(space, values, J_, D_, item.strips);
      return;
    }
    transposed_ = packed_matrix(space, values.transposed(), D_, J_, item.strips);
    if (room_.defined()) gradient_ = strip_gradient<T>(room_, item.sentence, item.head, item.part);
  }
  void weighted_sum(const StripRows<T>& rows, const T* weights, MatrixView<T> out) override {
    values_.multiply(rows.count, 1, {weights, rows.stride, 1}, rows.piece > 0, out,
                     {rows.hull_first, rows.hull_end, 0, D_});
  }
  void backward_of_values(const StripRows<T>& rows, const T* weights, MatrixView<const T> g,
                          Workspace& space) override {
    if (room_.defined()) add_key_gradient(rows, gradient_, D_, T(1), weights, g, space);
  }
  void backward_of_weights(const StripRows<T>& rows, MatrixView<const T> g, T* gradient) override {
    transposed_.multiply(rows.count, 1, g, 0, {gradient, rows.stride, 1}, {0, D_, rows.hull_first, rows.hull_end});
  }

 private:
  Tensor tensor_, room_;
  std::int64_t J_, D_;
  Panels<T> values_, transposed_;
  MatrixView<T> gradient_;
};

/// A plane for each dimension: a row of weights and a dimension of the values are two vectors over the keys.
template <class T>
class PlaneValues : public ValueWorker<T> {
 public:
  PlaneValues(const Tensor& values, const Tensor& room)
      : tensor_(values), room_(room), J_(values.size(2)), D_(values.size(3)), stride_(strip_stride<T>(J_)) {}

  void start(const StripItem& item, Workspace& space) override {
    item_ = item;
    values_ = space.take<T>(D_ * stride_);
    pack(head_matrix<T>(tensor_, item.sentence, item.head).transposed(), D_, J_, values_, stride_);
    if (!item.backward) return;
    gradient_ = space.take<T>(D_ * stride_);
    std::fill_n(gradient_, D_ * stride_, T(0));
  }
  void weighted_sum(const StripRows<T>& rows, const T* weights, MatrixView<T> out) override {
    for_rows(rows, [&](std::int64_t r, std::int64_t d, std::int64_t at) {
      const T *row = weights + at + rows.first[r], *value = values_ + d * stride_ + rows.first[r];
      *out.at(r, d) = sum_of_vectors<T>(rows.end[r] - rows.first[r], [&](std::int64_t j, auto count) {
        return filled(load_vector(row + j, count) * load_vector(value + j, count), count, T(0));
      });
    });
  }
  void backward_of_values(const StripRows<T>& rows, const T* weights, MatrixView<const T> g, Workspace&) override {
    for_rows(rows, [&](std::int64_t r, std::int64_t d, std::int64_t at) {
      const Vec<T> slope(*g.at(r, d));
      T* to = gradient_ + d * stride_;
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(fma(slope, load_vector(weights + at + j, count), load_vector(to + j, count)), to + j, count);
      });
    });
  }
  void backward_of_weights(const StripRows<T>& rows, MatrixView<const T> g, T* gradient) override {
    for_rows(rows, [&](std::int64_t r, std::int64_t d, std::int64_t at) {
      const Vec<T> slope(*g.at(r, d));
      const T* value = values_ + d * stride_;
      for_keys<T>(rows.first[r], rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(slope * load_vector(value + j, count), gradient + at + j, count);
      });
    });
  }
  void finish() override {
    if (!item_.backward || !room_.defined()) return;
    MatrixView<T> to = strip_gradient<T>(room_, item_.sentence, item_.head, item_.part);
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

  Tensor tensor_, room_;
  std::int64_t J_, D_, stride_;
  StripItem item_ = {};
  T *values_ = nullptr, *gradient_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<ValueWorker<T>> value_worker(const Tensor& values, std::int64_t planes, const Tensor& room) {
  if (planes == 1) return std::make_unique<MatrixValues<T>>(values, room);
  return std::make_unique<PlaneValues<T>>(values, room);
}
template std::unique_ptr<ValueWorker<float>> value_worker(const Tensor&, std::int64_t, const Tensor&);
template std::unique_ptr<ValueWorker<double>> value_worker(const Tensor&, std::int64_t, const Tensor&);

}  // namespace fovea
