#include "attention/methods/relative.h"

#include "attention/engine/cpu/strips.h"
#include "tensor/cpu/tiled_gemm.h"

namespace fovea {

namespace {

/// RelativeValues for the fused engine. Sums each row's weights by offset, then multiplies with the table.
class RelativeValueStrips : public StripValueTermOf<RelativeValueStrips> {
 public:
  RelativeValueStrips(Variable table, std::int64_t clip)
      : variable_(std::move(table)), table_(with_unit_rows(variable_.value())), clip_(clip) {}

  std::vector<Variable> inputs() const override { return {variable_}; }
  Tensor gradient_room(std::size_t, const StripShape& s) const override {
    return Tensor::zeros({s.parts, s.sentences, s.whole_sentences ? 1 : s.heads, offsets(), table_.size(1)},
                         table_.dtype());
  }
  bool takes_pieces() const override { return true; }

  template <class T>
  void forward_strip(const StripRows<T>& rows, const T* weights, MatrixView<T> out, Workspace& space) const {
    T* by_offset = collect(rows, weights, space);
    tiled_gemm<T>({rows.count, table_.size(1), offsets(), 1, 1}, {by_offset, offsets(), 1}, table<T>(), out);
  }

  template <class T>
  void backward_strip(const StripRows<T>& rows, const T* weights, MatrixView<const T> out_gradient, T* gradient,
                      std::span<Tensor> rooms, Workspace& space) const {
    if (rooms[0].defined()) {
      T* by_offset = collect(rows, weights, space);
      const std::int64_t rooms_of_sentence = rooms[0].shape()[2],
                         number = (rows.part * rooms[0].shape()[1] + rows.sentence) * rooms_of_sentence +
                                  (rooms_of_sentence > 1 ? rows.head : 0);
      MatrixView<T> room{rooms[0].mutable_data<T>() + number * offsets() * table_.size(1), table_.size(1), 1};
      tiled_gemm<T>({offsets(), table_.size(1), rows.count, 1, 1}, {by_offset, 1, offsets()}, out_gradient, room);
    }
    T* slopes = space.take<T>(rows.count * offsets());
    tiled_gemm<T>({rows.count, offsets(), table_.size(1), 1, 0}, out_gradient, table<T>().transposed(),
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
  template <class T>
  MatrixView<const T> table() const {
    return {table_.data<T>(), table_.strides()[0], 1};
  }

  /// The weights summed by offset, [rows, 2 clip + 1].
  template <class T>
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

/// Σ_j w_ij R^V_r. Weights are first summed by offset, [..., I, 2 k + 1].
class RelativeValues : public ValueTerm {
 public:
  RelativeValues(Variable table, std::int64_t clip) : table_(std::move(table)), clip_(clip) {}

  Variable composed(const Variable& weights, const AttentionContext& in) const override {
    Variable by_offset = scatter_last(weights, offset_index(in, clip_), 2 * clip_ + 1);
    if (weights.rank() == 4) return matmul(by_offset, table_);
    return weighted_sum(by_offset, reshape(table_, {1, 1, table_.size(0), table_.size(1)}));
  }
  std::unique_ptr<StripValueTerm> strips(const AttentionContext&) const override {
    return std::make_unique<RelativeValueStrips>(table_, clip_);
  }

 private:
  Variable table_;
  std::int64_t clip_;
};

}  // namespace

void RelativePositions::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("clip", options.clip, 1, 65536, "largest distance with an entry of its own, in tokens");
  visitor.flag("values", options.values, "relative values too, not only keys");
}

RelativePositions::RelativePositions(const MethodShape& shape, const Options& options) : options_(options) {
  require(
      shape.place != Place::cross,
      "relative: relative positions need queries and keys of one sequence; they are not defined in cross-attention");
  key_table_ = parameter("key_table", {2 * options.clip + 1, shape.head_dim}, Initializer::xavier_uniform());
  if (options.values)
    value_table_ = parameter("value_table", {2 * options.clip + 1, shape.value_dim}, Initializer::xavier_uniform());
}

void RelativePositions::add_terms(const AttentionContext& in, Terms& terms) {
  const std::int64_t clip =
      std::clamp<std::int64_t>(in.farthest(), 1, options_.clip);  // skip entries that no pair reads
  auto read = [&](const Variable& table) {
    return clip == options_.clip ? table : slice(table, 0, options_.clip - clip, options_.clip + clip + 1);
  };
  Variable scores = matmul(in.query, transpose(read(key_table_), 0, 1)) * in.scale();  // [B, H, I, 2 clip + 1]
  terms.biases.push_back(pointwise(AddBias{}, PerOffset{scores, clip}));
  if (options_.values) terms.values.push_back(std::make_unique<RelativeValues>(read(value_table_), clip));
}

}  // namespace fovea
