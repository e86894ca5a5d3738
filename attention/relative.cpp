#include "attention/relative.h"

namespace fovea {

namespace {

/// Σ_j w_ij R^V_r: the weights of equal offsets are added up first, [B, H, I, 2 k + 1].
class RelativeValues : public ValueTerm {
 public:
  RelativeValues(Variable table, std::int64_t clip) : table_(std::move(table)), clip_(clip) {}

  Variable composed(const Variable& weights, const AttentionContext& in) const override {
    return matmul(scatter_last(weights, offset_index(in, clip_), 2 * clip_ + 1), table_);
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
    value_table_ = parameter("value_table", {2 * options.clip + 1, shape.head_dim}, Initializer::xavier_uniform());
}

void RelativePositions::add_terms(const AttentionContext& in, Terms& terms) {
  Variable scores = matmul(in.query, transpose(key_table_, 0, 1)) * in.scale();  // [B, H, I, 2 k + 1]
  terms.biases.push_back(pointwise(AddBias{}, PerOffset{scores, options_.clip}));
  if (options_.values) terms.values.push_back(std::make_unique<RelativeValues>(value_table_, options_.clip));
}

}  // namespace fovea
