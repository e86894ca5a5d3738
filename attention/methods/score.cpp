#include "attention/methods/score.h"

#include <cmath>

#include "attention/engine/cpu/strip_score.h"
#include "tensor/comparison.h"

namespace fovea {

namespace {

class ScaledDotScore : public DotScore {
 public:
  using DotScore::DotScore;
  bool is_scaled_dot() const override { return true; }
};

class GeneralScore : public DotScore {
 public:
  explicit GeneralScore(Variable weight) : DotScore(1), weight_(std::move(weight)) {}
  Variable queries(const AttentionContext& in) const override { return project(in.query, weight_); }

 private:
  Variable weight_;
};

class AdditiveScore : public HiddenScore {
 public:
  AdditiveScore(HiddenLayer layer, Variable vector) : HiddenScore(std::move(layer)), vector_(std::move(vector)) {}
  Variable logits(const Variable& queries, const Variable& keys, const Tensor&) const override {
    return project_to_number(hidden(queries, keys), vector_);
  }

 protected:
  std::unique_ptr<StripScore> strips_of(const Sides& sides) const override {
    return additive_strips(sides.queries, sides.keys, vector_);
  }

 private:
  Variable vector_;
};

class LocationScore : public TwoSidedScore {
 public:
  explicit LocationScore(Variable weight) : weight_(std::move(weight)) {}
  Variable queries(const AttentionContext& in) const override { return project(in.query, weight_); }
  Variable keys(const AttentionContext& in) const override { return in.key; }
  Variable logits(const Variable& queries, const Variable&, const Tensor& positions) const override {
    // keys beyond the table are masked; they read its last entry
    Tensor last = Tensor::full({1}, static_cast<double>(queries.size(-1) - 1), DType::i64);
    return gather_last(queries, where(less(positions, last), positions, last));
  }

 protected:
  std::unique_ptr<StripScore> strips_of(const Sides& sides) const override { return location_strips(sides.queries); }

 private:
  Variable weight_;
};

/// Throws Error unless queries and keys have one width, as products without a parameter need.
void require_one_width(const char* name, const MethodShape& shape) {
  require(shape.query_dim == shape.key_dim,
          "{}: queries have width {}, keys {}; they must be equal (use general or additive for different widths)", name,
          shape.query_dim, shape.key_dim);
}

}  // namespace

const TwoSidedScore::Sides& TwoSidedScore::sides(const AttentionContext& in) const {
  if (!sides_.queries.defined()) sides_ = {queries(in), keys(in)};
  return sides_;
}

Variable TwoSidedScore::composed(const AttentionContext& in) const {
  return logits(sides(in).queries, sides(in).keys, Tensor::arange(in.key.size(2), DType::i64));
}

std::unique_ptr<StripScore> TwoSidedScore::strips_of(const Sides&) const { return nullptr; }

std::vector<std::unique_ptr<StripScore>> TwoSidedScore::strips(const AttentionContext& in) const {
  std::vector<std::unique_ptr<StripScore>> all;
  if (auto strips = strips_of(sides(in))) all.push_back(std::move(strips));
  return all;
}

Variable DotScore::logits(const Variable& queries, const Variable& keys, const Tensor&) const {
  return matmul(queries, transpose(keys, -1, -2), {.scale = scale_});
}

std::unique_ptr<StripScore> DotScore::strips_of(const Sides& sides) const {
  return dot_strips(sides.queries, sides.keys, scale_);
}

std::unique_ptr<StripScore> NoScore::strips_of(const Sides&) const { return no_score_strips(); }

Variable NoScore::logits(const Variable& queries, const Variable& keys, const Tensor&) const {
  return Tensor::zeros({queries.size(0), queries.size(1), queries.size(2), keys.size(2)}, queries.dtype(),
                       queries.device());
}

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

Variable HiddenScore::keys(const AttentionContext& in) const {
  auto projected = [&] { return transpose(project(in.newest_key(), layer_.key_projection, layer_.bias), 1, 2); };
  Variable all = transpose(in.all_keys(layer_.key_projection.id(), projected), 1, 2);  // [B, H, J, a]
  require(
      all.size(0) == in.key.size(0) && all.size(2) == in.key.size(2),
      "attention: the memory has {} sources of {} keys, but this call has {} of {}; use a new memory for a new source",
      all.size(0), all.size(2), in.key.size(0), in.key.size(2));
  return all;
}

Variable HiddenScore::hidden(const Variable& queries, const Variable& keys) {
  return tanh(unsqueeze(queries, 3) + unsqueeze(keys, 2));
}

DotProduct::DotProduct(const MethodShape& shape, const Options&) { require_one_width("dot", shape); }

void DotProduct::add_terms(const AttentionContext&, Terms& terms) { terms.set_score(std::make_unique<DotScore>(1)); }

ScaledDotProduct::ScaledDotProduct(const MethodShape& shape, const Options&) { require_one_width("scaled_dot", shape); }

void ScaledDotProduct::add_terms(const AttentionContext& in, Terms& terms) {
  terms.set_score(std::make_unique<ScaledDotScore>(in.scale()));
  terms.quantity("scores",
                 [in] { return DotScore(in.scale()).composed(in); });  // the fused engine has no matrix of scores
}

GeneralProduct::GeneralProduct(const MethodShape& shape, const Options&)
    : weight_(parameter("weight", shape_of_heads(shape, {shape.query_dim, shape.key_dim}),
                        Initializer::xavier_uniform())) {}

void GeneralProduct::add_terms(const AttentionContext&, Terms& terms) {
  terms.set_score(std::make_unique<GeneralScore>(weight_));
}

void HiddenScoring::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("hidden", options.hidden, 0, 1 << 16, "width of the hidden layer; 0: that of the queries");
  visitor.flag("bias", options.bias, "b inside the tanh; Shu & Nakayama 2017 have none");
}

HiddenScoring::HiddenScoring(const MethodShape& shape, const Options& options) {
  std::int64_t a = options.hidden > 0 ? options.hidden : shape.query_dim;
  hidden_.query_projection =
      parameter("query_projection", shape_of_heads(shape, {shape.query_dim, a}), Initializer::xavier_uniform());
  hidden_.key_projection =
      parameter("key_projection", shape_of_heads(shape, {shape.key_dim, a}), Initializer::xavier_uniform());
  if (options.bias) hidden_.bias = parameter("bias", shape_of_heads(shape, {a}), Initializer::zeros());
}

AdditiveScoring::AdditiveScoring(const MethodShape& shape, const Options& options)
    : HiddenScoring(shape, options),
      vector_(parameter("vector", shape_of_heads(shape, {width()}), vector_initializer(width()))) {}

void AdditiveScoring::add_terms(const AttentionContext&, Terms& terms) {
  terms.set_score(std::make_unique<AdditiveScore>(hidden_, vector_));
}

void LocationScoring::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("longest", options.longest, 1, 1 << 16, "keys that have a score; later ones weigh nothing");
}

LocationScoring::LocationScoring(const MethodShape& shape, const Options& options)
    : options_(options),
      weight_(parameter("weight", shape_of_heads(shape, {shape.query_dim, options.longest}),
                        Initializer::xavier_uniform())) {}

void LocationScoring::add_terms(const AttentionContext& in, Terms& terms) {
  terms.set_score(std::make_unique<LocationScore>(weight_));
  std::int64_t J = in.key.size(2);
  if (J <= options_.longest) return;
  // The range lets the fused engine skip keys. The mask is needed too, because Terms::always overrides ranges.
  Tensor last = Tensor::full({1}, static_cast<double>(options_.longest - 1), DType::i64);
  terms.masks.push_back(less_equal(Tensor::arange(J, DType::i64), last).reshape({1, 1, 1, J}).to(in.query.device()));
  terms.ranges.push_back({Tensor::full({1, 1, 1}, 0, DType::i64),
                          Tensor::full({1, 1, 1}, static_cast<double>(options_.longest), DType::i64)});
}

}  // namespace fovea
