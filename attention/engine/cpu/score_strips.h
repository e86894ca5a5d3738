/// Products of queries and keys as scores on strips.
#pragma once
#include "attention/engine/cpu/strips.h"

namespace fovea {

/// scale · q_i · k_j. queries [B, H, I, D], keys [B, H, J, D]. With `exact` queries and keys are never rounded to bf16.
template <class T>
class DotScore : public StripScore<T> {
 public:
  DotScore(const Variable& queries, const Variable& keys, double scale, const StripShape& shape, bool exact = false)
      : queries_(with_unit_rows(queries.value())),
        keys_(with_unit_rows(keys.value())),
        J_(shape.keys),
        D_(keys.size(-1)),
        scale_(static_cast<T>(scale)),
        exact_(exact) {
    this->inputs = {query_input(queries, shape), key_input(keys, shape)};
    this->by_interval = true;
  }

  void start(const StripItem& item, Workspace& space) override {
    const MatrixView<const T> keys = head_matrix<T>(keys_, item);
    rows_of_queries_ = head_matrix<T>(queries_, item);
    if (item.logits)
      transposed_keys_ =
          packed_matrix(space, keys.transposed(), D_, J_, item.strips, exact_ ? Precision::f32 : space.products);
    if (!item.backward) return;
    if (wants(0)) {
      packed_keys_ = packed_matrix(space, keys, J_, D_, item.strips);
      query_gradient_ = gradient_matrix<T>(this->gradients[0], item);
    }
    if (wants(1)) key_gradient_ = gradient_matrix<T>(this->gradients[1], item);
  }

  void logits(const StripRows<T>& rows, T* strip, Workspace&) const override {
    transposed_keys_.multiply(rows.count, scale_, rows_of_queries_.from(rows.first_query, 0), 0,
                              {strip, rows.stride, 1}, {0, D_, rows.hull_first, rows.hull_end});
  }

  void backward(const StripRows<T>& rows, const T* gradient, Workspace& space) const override {
    if (wants(0))
      packed_keys_.multiply(rows.count, scale_, {gradient, rows.stride, 1}, rows.plane > 0 || rows.interval > 0,
                            query_gradient_.from(rows.first_query, 0), {rows.hull_first, rows.hull_end, 0, D_});
    if (wants(1))
      add_key_gradient(rows, key_gradient_, D_, scale_, gradient, rows_of_queries_.from(rows.first_query, 0), space);
  }

 private:
  bool wants(std::size_t k) const { return this->gradients[k].defined(); }

  Tensor queries_, keys_;
  std::int64_t J_, D_;
  T scale_;
  bool exact_;
  // of the current item:
  MatrixView<const T> rows_of_queries_ = {};
  Panels<T> transposed_keys_, packed_keys_;
  MatrixView<T> query_gradient_ = {}, key_gradient_ = {};
};

/// 0 for every pair.
template <class T>
class ZeroScore : public StripScore<T> {
 public:
  ZeroScore() { this->by_interval = true; }
  void logits(const StripRows<T>& rows, T* strip, Workspace&) const override {
    for (std::int64_t r = 0; r < rows.count; ++r, strip += rows.stride)
      for (std::int64_t j = rows.hull_first; j < rows.hull_end; j += Vec<T>::lanes) Vec<T>(T(0)).store(strip + j);
  }
  void backward(const StripRows<T>&, const T*, Workspace&) const override {}
};

}  // namespace fovea
