#include "attention/methods/cope.h"

#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// s + q · e(p), from scores s. The capture is q · e_r for every row r of the table, [B, h, I, longest + 1].
class PositionTerm : public CustomTerm {
 public:
  Variable composed(const Variable& scores, const AttentionContext& in, const Captured& captured) const override {
    const Variable zero = constant_like(scores, 0);
    const std::int64_t longest = captured[0].size(-1) - 1;
    Variable gates = sigmoid(scores);
    if (const Tensor seen = in.seen(); seen.defined()) gates = where(seen, gates, zero);
    const Variable position = minimum(cumulative_sum(gates, true), zero + static_cast<double>(longest));
    Tensor below = map(Minimum{}, map(Floor{}, position.value()), (zero + static_cast<double>(longest - 1)).value());
    below = where(less_equal(below, below), below, zero.value());  // a NaN position may read any row: `above` is NaN
    const Tensor row = below.to(DType::i64), next = map(Affine{1, 1}, below).to(DType::i64);
    const Variable above = position - Variable(below);  // w
    Shape rows = scores.shape();
    rows[rows.rank() - 1] = longest + 1;
    const Variable table = broadcast_to(captured[0], rows);  // scores may be [D, B, h, I, J]
    const Variable lower = gather_last(table, row), upper = gather_last(table, next);
    return scores + lower + above * (upper - lower);
  }
};

}  // namespace

ContextualPositions::ContextualPositions(const MethodShape& shape, const Options& options)
    : table_(parameter("table", {options.longest + 1, shape.query_dim}, Initializer::zeros())) {
  require(shape.place == Place::decoder,
          "cope: positions are counted from a key to a later query; this is defined in the self-attention "
          "of a decoder only");
}

void ContextualPositions::add_terms(const AttentionContext& in, Plan& plan) {
  require(in.causal, "cope: the attention is not causal; cope needs causal self-attention");
  const Variable products = matmul(in.query, transpose(table_, 0, 1));
  // The term is a change of the score, before all biases, so that biases of other methods do not affect the gates.
  plan.score_changes.push_back({std::make_shared<const PositionTerm>(), {{Per::query_vector, products}}});
}

}  // namespace fovea
