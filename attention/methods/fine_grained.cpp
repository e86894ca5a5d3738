#include "attention/methods/fine_grained.h"

#include "attention/engine/cpu/strip_score.h"

namespace fovea {

namespace {

class FineGrainedScore : public HiddenScore {
 public:
  FineGrainedScore(HiddenLayer layer, Variable dimensions)
      : HiddenScore(std::move(layer)), dimensions_(std::move(dimensions)) {}
  /// → [D, B, H, I, K]
  Variable logits(const Variable& queries, const Variable& keys, const Tensor&) const override {
    Variable weight = dimensions_.rank() == 2 ? dimensions_ : unsqueeze(dimensions_, 1);  // [H, 1, a, D]
    return permute(matmul(hidden(queries, keys), weight), {4, 0, 1, 2, 3});
  }

 protected:
  std::unique_ptr<StripScore> strips_of(const Sides& sides) const override {
    return fine_grained_strips(sides.queries, sides.keys, dimensions_);
  }

 private:
  Variable dimensions_;
};

}  // namespace

FineGrained::FineGrained(const MethodShape& shape, const Options& options)
    : HiddenScoring(shape, options),
      dimensions_(
          parameter("dimensions", shape_of_heads(shape, {width(), shape.value_dim}), Initializer::xavier_uniform())) {}

void FineGrained::add_terms(const AttentionContext& in, Terms& terms) {
  require(in.value.size(-1) == dimensions_.size(-1), "fine_grained: values are {} wide, expected {}", in.value.size(-1),
          dimensions_.size(-1));
  terms.set_score(std::make_unique<FineGrainedScore>(hidden_, dimensions_));
}

}  // namespace fovea
