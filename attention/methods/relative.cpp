#include "attention/methods/relative.h"

namespace fovea {

void RelativePositions::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("clip", options.clip, 1, 65536, "k, the largest distance with vectors of its own, in tokens");
  visitor.flag("values", options.values, "also add vectors to the values, not only to the keys");
  visitor.flag("unit_initial", options.unit_initial, "initial values in 0 to 1, as in the code of Nguyen et al. 2020");
}

RelativePositions::RelativePositions(const MethodShape& shape, const Options& options) : options_(options) {
  require(shape.place != Place::cross,
          "relative: queries and keys must be tokens of one sequence, so it is not defined in cross-attention");
  const Initializer initial = options.unit_initial ? Initializer::uniform(0, 1) : Initializer::xavier_uniform();
  key_table_ = parameter("key_table", {2 * options.clip + 1, shape.head_dim}, initial);
  if (options.values) value_table_ = parameter("value_table", {2 * options.clip + 1, shape.value_dim}, initial);
}

void RelativePositions::add_terms(const AttentionContext& in, Plan& plan) {
  const std::int64_t clip =
      std::clamp<std::int64_t>(in.farthest(), 1, options_.clip);  // leave out entries that no pair reads
  auto read = [&](const Variable& table) {
    return clip == options_.clip ? table : slice(table, 0, options_.clip - clip, options_.clip + clip + 1);
  };
  Variable scores = matmul(in.query, transpose(read(key_table_), 0, 1)) * in.scale();  // [B, H, I, 2 clip + 1]
  plan.biases.push_back(pointwise(AddBias{}, PerOffset{scores, clip}));
  if (options_.values) plan.values.push_back({clip, {{Per::whole, read(value_table_)}}});
}

}  // namespace fovea
