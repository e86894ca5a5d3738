#include "attention/multi_head.h"

#include <algorithm>

namespace fovea {

namespace {

/// A term on some of the heads: the others pass through.
class OnHeads : public PairTerm {
 public:
  OnHeads(std::unique_ptr<PairTerm> term, int first, int count)
      : term_(std::move(term)), first_(first), count_(count) {}
  Variable composed(const Variable& pairs, const AttentionContext& in) const override;

 private:
  std::unique_ptr<PairTerm> term_;
  int first_, count_;
};

class ValueOnHeads : public ValueTerm {
 public:
  ValueOnHeads(std::unique_ptr<ValueTerm> term, int first, int count)
      : term_(std::move(term)), first_(first), count_(count) {}
  Variable composed(const Variable& weights, const AttentionContext& in) const override;

 private:
  std::unique_ptr<ValueTerm> term_;
  int first_, count_;
};

/// What a method on heads [first, first + count) sees.
AttentionContext context_of_heads(const AttentionContext& in, int first, int count) {
  AttentionContext out = in;
  if (first == 0 && count == in.query.size(1)) return out;
  out.query = slice(in.query, 1, first, first + count);
  out.key = slice(in.key, 1, first, first + count);
  out.value = slice(in.value, 1, first, first + count);
  return out;
}

/// `middle` where heads [first, first + count) were, `outside`'s heads elsewhere.
Variable replace_heads(const Variable& outside, const Variable& middle, int first, int count) {
  std::int64_t heads = outside.size(1);
  std::vector<Variable> pieces;
  if (first > 0) pieces.push_back(slice(outside, 1, 0, first));
  pieces.push_back(middle);
  if (first + count < heads) pieces.push_back(slice(outside, 1, first + count, heads));
  return concat(pieces, 1);
}

Variable OnHeads::composed(const Variable& pairs, const AttentionContext& in) const {
  Variable changed = term_->composed(slice(pairs, 1, first_, first_ + count_), context_of_heads(in, first_, count_));
  return replace_heads(pairs, changed, first_, count_);
}

Variable ValueOnHeads::composed(const Variable& weights, const AttentionContext& in) const {
  Variable added = term_->composed(slice(weights, 1, first_, first_ + count_), context_of_heads(in, first_, count_));
  Variable zero(Tensor::zeros(in.query.shape(), in.query.dtype(), in.query.device()));
  return replace_heads(zero, added, first_, count_);
}

/// The keys each query may see: [B or 1, 1, I or 1].
KeyRange visible_keys(const AttentionInput& input, std::int64_t I, std::int64_t J) {
  std::vector<std::int64_t> ends{J};
  if (input.key_lengths.defined()) {
    ends = input.key_lengths.to(DType::i64).to_vector<std::int64_t>();
    require(static_cast<std::int64_t>(ends.size()) == input.key.size(0), "attention: {} key lengths for {} sentences",
            ends.size(), input.key.size(0));
    for (std::int64_t end : ends)
      require(0 <= end && end <= J, "attention: a key length is {}, the keys are padded to {}", end, J);
  }
  Tensor end = Tensor::from(ends, {static_cast<std::int64_t>(ends.size()), 1, 1});
  if (input.causal) {
    std::vector<std::int64_t> prefixes;
    for (std::int64_t length : ends)
      for (std::int64_t i = 0; i < I; ++i) prefixes.push_back(std::min(length, i + input.query_offset + 1));
    end = Tensor::from(prefixes, {static_cast<std::int64_t>(ends.size()), 1, I});
  }
  return {Tensor::from(std::vector<std::int64_t>{0}, {1, 1, 1}), end};
}

/// How many keys each query may see: [B, 1, 1], or [B, 1, I] for prefixes.
Variable visible_length(const AttentionInput& input, std::int64_t I, std::int64_t J, DType dtype) {
  Tensor length = input.key_lengths.defined() ? input.key_lengths.to(Device::cpu).to(dtype).reshape({-1, 1, 1})
                                              : Tensor::full({1, 1, 1}, static_cast<double>(J), dtype);
  if (input.causal) length = map(Minimum{}, length, Tensor::arange(I, dtype, Device::cpu, input.query_offset + 1));
  return length.to(input.query.device());
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const AttentionShape& shape, std::vector<Placed> methods)
    : shape_(shape),
      head_dim_(shape.heads > 0 ? shape.model_dim / shape.heads : 0),
      query_(shape.model_dim, shape.model_dim),
      key_(shape.model_dim, shape.model_dim),
      value_(shape.model_dim, shape.model_dim),
      output_(shape.model_dim, shape.model_dim),
      methods_(std::move(methods)) {
  require(shape.heads > 0 && shape.model_dim % shape.heads == 0,
          "attention: {} heads do not divide the model's width, {}", shape.heads, shape.model_dim);
  child("query", query_);
  child("key", key_);
  child("value", value_);
  child("output", output_);
  for (Placed& placed : methods_) child(placed.name, *placed.method);
}

AttentionContext MultiHeadAttention::context(const AttentionInput& input) const {
  const Shape &q = input.query.shape(), &k = input.key.shape(), &v = input.value.shape();
  std::int64_t d = shape_.model_dim;
  require(q.rank() == 3 && k.rank() == 3 && v == k && q[0] == k[0] && q[2] == d && k[2] == d,
          "attention: query {}, key {}, value {}; expected [B, I, {}] and twice [B, J, {}]", q.str(), k.str(), v.str(),
          d, d);
  std::int64_t I = q[1], J = k[1];
  AttentionContext in;
  in.query_states = input.query;
  in.key_states = input.key;
  in.projected_query = query_.forward(input.query);
  in.projected_key = key_.forward(input.key);
  in.query = split_heads(in.projected_query, head_dim_);
  in.key = split_heads(in.projected_key, head_dim_);
  in.value = split_heads(value_.forward(input.value), head_dim_);
  in.visible = visible_keys(input, I, J);
  in.causal = input.causal;
  in.place = shape_.place;
  in.length = visible_length(input, I, J, input.query.dtype());
  in.query_positions = Tensor::arange(I, input.query.dtype(), input.query.device(), input.query_offset);
  in.key_positions = Tensor::arange(J, input.query.dtype(), input.query.device());
  return in;
}

Variable MultiHeadAttention::forward(const AttentionInput& input) {
  Scope scope("attention");
  AttentionContext in = context(input);
  Terms all;
  for (Placed& placed : methods_) {
    Terms terms;
    placed.method->add_terms(context_of_heads(in, placed.first_head, placed.heads), terms);
    bool every_head = placed.heads == shape_.heads;
    auto place = [&](std::unique_ptr<PairTerm> term) -> std::unique_ptr<PairTerm> {
      return every_head ? std::move(term) : std::make_unique<OnHeads>(std::move(term), placed.first_head, placed.heads);
    };
    for (auto& bias : terms.biases) all.biases.push_back(place(std::move(bias)));
    for (auto& window : terms.windows) all.windows.push_back(place(std::move(window)));
    for (auto& value : terms.values)
      all.values.push_back(every_head
                               ? std::move(value)
                               : std::make_unique<ValueOnHeads>(std::move(value), placed.first_head, placed.heads));
    for (auto& quantity : terms.quantities) all.quantities.push_back(std::move(quantity));
  }
  Variable heads = attend_composed(in, all, training() ? shape_.dropout : 0, input.trace);
  return output_.forward(merge_heads(heads));
}

}  // namespace fovea
