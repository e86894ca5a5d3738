#include "attention/methods/dynamic_mask.h"

#include <cmath>
#include <utility>

#include "attention/engine/composed.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

void DynamicMask::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("clip", options.clip, 1, 65536, "largest distance with an entry of its own in the tables, in tokens");
  visitor.flag("log_floor", options.log_floor, "log M is at least log 1e-10, as in the authors' code");
  visitor.flag("published_initial", options.published_initial,
               "initial values as in the authors' code, P and U from N(0, 1): random masks hide keys from the start");
}

DynamicMask::DynamicMask(const MethodShape& shape, const Options& options) : options_(options) {
  const bool published = options.published_initial;
  const Initializer weight = Initializer::xavier_uniform(), table = Initializer::normal(published ? 1 : 0.1);
  weight_ = parameter("weight", {shape.model_dim}, published ? weight : weight.scaled(0.1),
                      published ? 1 : rate_of_reading(shape.model_dim));
  left_ = parameter("left", {options.clip}, table);
  right_ = parameter("right", {options.clip}, table);
  head_ = parameter("head", {shape.heads}, published ? Initializer::normal(1) : Initializer::constant(2));
}

Variable DynamicMask::offset_table(std::int64_t clip) const {
  const Tensor nearest_first = Tensor::arange(clip, DType::f64, left_.device());
  const Tensor farthest_first = map(Affine{-1, static_cast<double>(clip - 1)}, nearest_first).to(DType::i64);
  Variable before = gather_last(slice(left_, 0, 0, clip), farthest_first);
  return concat({before, constant_like(left_, 0), slice(right_, 0, 0, clip)}, 0);
}

void DynamicMask::add_terms(const AttentionContext& in, Plan& plan) {
  Variable row = transpose(matmul(in.query_states, unsqueeze(weight_, 1)), 1, 2);  // x_i W, [B, 1, I]
  LogSigmoidBias bias;
  if (options_.log_floor) bias.floor = std::log(1e-10);
  std::int64_t clip = std::clamp<std::int64_t>(in.farthest(), 1, options_.clip);  // leave out entries no pair reads
  auto term = [=, row = row + unsqueeze(head_, 1), table = offset_table(clip)] {
    return pointwise(bias, PerQuery{row}, PerOffset{table, clip});
  };
  plan.biases.push_back(term());
  plan.quantity("mask", [in, term] {
    return exp(apply_term(term(), Tensor::zeros(in.pairs(), in.query.dtype(), in.query.device()), in));
  });
}

}  // namespace fovea
