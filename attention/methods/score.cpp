#include "attention/methods/score.h"

#include <cmath>

#include "attention/engine/composed.h"

namespace fovea {

namespace {

/// Throws Error unless queries and keys are equally wide, which a product without a matrix requires.
void require_one_width(const char* name, const MethodShape& shape) {
  require(shape.query_dim == shape.key_dim,
          "{}: queries have width {}, keys have width {}; they must be equal (general and additive allow two widths)",
          name, shape.query_dim, shape.key_dim);
}

}  // namespace

Score no_score(const AttentionContext& in) { return {.form = Score::Form::none, .queries = in.query, .keys = in.key}; }

Shape shape_of_heads(const MethodShape& shape, Shape own) {
  if (shape.heads > 1) own.insert(0, shape.heads);
  return own;
}

Initializer vector_initializer(std::int64_t n) {
  return Initializer::uniform(std::sqrt(6.0 / static_cast<double>(n + 1)));
}

Variable project(const Variable& x, const Variable& weight, const Variable& bias) {
  if (weight.rank() == 2) return linear(x, weight, bias);
  Variable y = matmul(x, weight);
  return bias.defined() ? y + unsqueeze(bias, 1) : y;
}

Variable project_to_number(const Variable& x, const Variable& vector) {
  Variable columns = unsqueeze(vector, -1);  // [n, 1] or [H, n, 1]
  if (vector.rank() == 2 && x.rank() == 5) columns = unsqueeze(columns, 1);
  return squeeze(matmul(x, columns), -1);
}

DotProduct::DotProduct(const MethodShape& shape, const Options&) { require_one_width("dot", shape); }

void DotProduct::add_terms(const AttentionContext& in, Plan& plan) {
  plan.scores.push_back({.queries = in.query, .keys = in.key});
}

ScaledDotProduct::ScaledDotProduct(const MethodShape& shape, const Options&) { require_one_width("scaled_dot", shape); }

void ScaledDotProduct::add_terms(const AttentionContext& in, Plan& plan) {
  const Score score = default_score(in, {0, in.query.size(1)});
  plan.scores.push_back(score);
  plan.scores.back().heads = {};
  // a trace has "scores" only for scores that are not the default (fill_trace)
  plan.quantity("scores", [score] { return score_logits(score, {}); });
}

GeneralProduct::GeneralProduct(const MethodShape& shape, const Options&)
    : weight_(parameter("weight", shape_of_heads(shape, {shape.query_dim, shape.key_dim}),
                        Initializer::xavier_uniform())) {}

void GeneralProduct::add_terms(const AttentionContext& in, Plan& plan) {
  plan.scores.push_back({.queries = project(in.query, weight_), .keys = in.key});
}

void HiddenScoring::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("hidden", options.hidden, 0, 1 << 16, "width of the hidden layer; 0: the width of the queries");
  visitor.flag("bias", options.bias, "add the bias b inside the tanh; Shu & Nakayama 2017 have none");
}

HiddenScoring::HiddenScoring(const MethodShape& shape, const Options& options) {
  std::int64_t a = options.hidden > 0 ? options.hidden : shape.query_dim;
  query_projection_ =
      parameter("query_projection", shape_of_heads(shape, {shape.query_dim, a}), Initializer::xavier_uniform());
  key_projection_ =
      parameter("key_projection", shape_of_heads(shape, {shape.key_dim, a}), Initializer::xavier_uniform());
  if (options.bias) bias_ = parameter("bias", shape_of_heads(shape, {a}), Initializer::zeros());
}

Score HiddenScoring::score(const AttentionContext& in, Score::Form form, const Variable& weight) const {
  auto projected = [&] { return transpose(project(in.newest_key(), key_projection_, bias_), 1, 2); };
  Variable keys = transpose(in.all_keys(key_projection_.id(), projected), 1, 2);  // [B, H, J, a]
  require(keys.size(0) == in.key.size(0) && keys.size(2) == in.key.size(2),
          "attention: the memory holds {} sentences of {} keys, but this call has {} of {}; use a new memory for a new "
          "source",
          keys.size(0), keys.size(2), in.key.size(0), in.key.size(2));
  return {.form = form, .queries = project(in.query, query_projection_), .keys = keys, .weight = weight};
}

AdditiveScoring::AdditiveScoring(const MethodShape& shape, const Options& options)
    : HiddenScoring(shape, options),
      vector_(parameter("vector", shape_of_heads(shape, {width()}), vector_initializer(width()))) {}

void AdditiveScoring::add_terms(const AttentionContext& in, Plan& plan) {
  plan.scores.push_back(score(in, Score::Form::hidden, vector_));
}

void LocationScoring::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("longest", options.longest, 1, 1 << 16, "number of keys that have a score; later keys are hidden");
}

LocationScoring::LocationScoring(const MethodShape& shape, const Options& options)
    : options_(options),
      weight_(parameter("weight", shape_of_heads(shape, {shape.query_dim, options.longest}),
                        Initializer::xavier_uniform())) {}

void LocationScoring::add_terms(const AttentionContext& in, Plan& plan) {
  require(!in.document_start.defined(),
          "location: scores belong to positions in the row, so it is not defined for several documents in one row");
  plan.scores.push_back({.form = Score::Form::location, .queries = project(in.query, weight_), .keys = in.key});
  const std::int64_t J = in.key.size(2);
  if (J <= options_.longest) return;
  // The range lets engines skip keys. The mask is needed too, because Plan::always makes keys outside of ranges
  // visible.
  const auto longest = static_cast<double>(options_.longest);
  const KeyRange table{{}, Tensor::full({1, 1, 1}, longest, DType::i32, in.query.device())};
  plan.masks.push_back({allowed_pairs(table, J)});
  plan.ranges.push_back({table});
}

}  // namespace fovea
