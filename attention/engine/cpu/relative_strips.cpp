// Relative values on strips: Σ_j w_ij R_r for the queries of a strip.
#include "attention/engine/cpu/strip_parts.h"
#include "attention/engine/cpu/strips.h"
#include "tensor/cpu/tiled_gemm.h"

namespace fovea {

namespace {

/// Sums each row's weights by offset, then multiplies with the table.
template <class T>
class RelativeValueStrips : public StripValueTerm<T> {
 public:
  RelativeValueStrips(Variable table, std::int64_t clip)
      : variable_(std::move(table)), table_(with_unit_rows(variable_.value())), clip_(clip) {}

  std::vector<Variable> inputs() const override { return {variable_}; }
  Tensor gradient_room(std::size_t, const StripShape& s) const override {
    return Tensor::zeros({s.parts, s.sentences, s.whole_sentences ? 1 : s.heads, offsets(), table_.size(1)},
                         table_.dtype());
  }
  bool takes_pieces() const override { return true; }

  void forward(const StripRows<T>& rows, const T* weights, MatrixView<T> out, Workspace& space) const override {
    T* by_offset = collect(rows, weights, space);
    tiled_gemm<T>({rows.count, table_.size(1), offsets(), 1, 1}, {by_offset, offsets(), 1}, table(), out);
  }

  void backward(const StripRows<T>& rows, const T* weights, MatrixView<const T> out_gradient, T* gradient,
                std::span<Tensor> rooms, Workspace& space) const override {
    if (rooms[0].defined()) {
      T* by_offset = collect(rows, weights, space);
      const std::int64_t rooms_of_sentence = rooms[0].shape()[2],
                         number = (rows.part * rooms[0].shape()[1] + rows.sentence) * rooms_of_sentence +
                                  (rooms_of_sentence > 1 ? rows.head : 0);
      MatrixView<T> room{rooms[0].mutable_data<T>() + number * offsets() * table_.size(1), table_.size(1), 1};
      tiled_gemm<T>({offsets(), table_.size(1), rows.count, 1, 1}, {by_offset, 1, offsets()}, out_gradient, room);
    }
    T* slopes = space.take<T>(rows.count * offsets());
    tiled_gemm<T>({rows.count, offsets(), table_.size(1), 1, 0}, out_gradient, table().transposed(),
                  {slopes, offsets(), 1});
    for (std::int64_t r = 0; r < rows.count; ++r, slopes += offsets()) {
      T* row = gradient + r * rows.stride;
      auto [begin, end] = inner_keys(rows, r, clip_);
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

  /// The weights summed by offset, [rows, 2 clip + 1].
  T* collect(const StripRows<T>& rows, const T* weights, Workspace& space) const {
    T* by_offset = space.take<T>(rows.count * offsets());
    std::fill_n(by_offset, rows.count * offsets(), T(0));
    for (std::int64_t r = 0; r < rows.count; ++r) {
      T* to = by_offset + r * offsets();
      const T* row = weights + r * rows.stride;
      auto [begin, end] = inner_keys(rows, r, clip_);
      std::copy(row + begin, row + end, to + clip_ - rows.query_position(r) + begin);
      to[0] += sum_of(row, rows.first[r], begin);
      to[2 * clip_] += sum_of(row, end, rows.end[r]);
    }
    return by_offset;
  }

  Variable variable_;
  Tensor table_;
  std::int64_t clip_;
};

}  // namespace

template <class T>
std::unique_ptr<StripValueTerm<T>> relative_strips(const Variable& table, std::int64_t clip) {
  return std::make_unique<RelativeValueStrips<T>>(table, clip);
}
template std::unique_ptr<StripValueTerm<float>> relative_strips(const Variable&, std::int64_t);
template std::unique_ptr<StripValueTerm<double>> relative_strips(const Variable&, std::int64_t);

}  // namespace fovea
