#include "attention/multi_head.h"

#include <algorithm>

#include "attention/on_heads.h"

namespace fovea {

namespace {

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

/// The caller's mask, checked, in the type of the states: [B or 1, H or 1, I or 1, J].
Variable checked_mask(const Variable& mask, const Shape& pairs, DType dtype) {
  if (!mask.defined() || !mask.value().defined()) return {};
  const Shape& shape = mask.shape();
  bool fits = shape.rank() == 4 && shape[3] == pairs[3];
  for (int dim = 0; fits && dim < 3; ++dim) fits = shape[dim] == 1 || shape[dim] == pairs[dim];
  require(fits, "attention: the mask is {}; expected {}, where all but the last may be 1", shape.str(), pairs.str());
  return cast(mask, dtype);
}

}  // namespace

Surroundings MultiHeadAttention::surroundings(const std::vector<Placed>& methods, std::int64_t model_dim) {
  Surroundings surroundings{.value_dim = model_dim};
  for (const Placed& placed : methods) placed.method->change(surroundings);
  return surroundings;
}

MultiHeadAttention::MultiHeadAttention(const AttentionShape& shape, std::vector<Placed> methods)
    : shape_(shape),
      head_dim_(shape.heads > 0 ? shape.model_dim / shape.heads : 0),
      methods_(std::move(methods)),
      surroundings_(surroundings(methods_, shape.model_dim)),
      query_(shape.model_dim, shape.model_dim),
      key_(shape.model_dim, shape.model_dim),
      value_(shape.model_dim, surroundings_.value_dim),
      output_(surroundings_.value_dim, shape.model_dim) {
  require(shape.heads > 0 && shape.model_dim % shape.heads == 0,
          "attention: {} heads do not divide the model's width, {}", shape.heads, shape.model_dim);
  require(surroundings_.value_dim % shape.heads == 0, "attention: {} heads do not divide the width of the values, {}",
          shape.heads, surroundings_.value_dim);
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
  in.value = split_heads(value_.forward(input.value), surroundings_.value_dim / shape_.heads);
  in.mask = checked_mask(input.mask, {q[0], shape_.heads, I, J}, input.query.dtype());
  in.visible = visible_keys(input, I, J);
  in.causal = input.causal;
  in.query_offset = input.query_offset;
  in.place = shape_.place;
  in.length = visible_length(input, I, J, input.query.dtype());
  in.query_positions = Tensor::arange(I, input.query.dtype(), input.query.device(), input.query_offset);
  in.key_positions = Tensor::arange(J, input.query.dtype(), input.query.device());
  return in;
}

Variable MultiHeadAttention::forward(const AttentionInput& input) {
  Scope scope("attention");
  AttentionContext in = context(input);
  for (Placed& placed : methods_) prepare_heads(*placed.method, in, {placed.first_head, placed.heads});
  Terms all;
  for (Placed& placed : methods_) {
    HeadRange heads{placed.first_head, placed.heads};
    Terms terms;
    placed.method->add_terms(context_of_heads(in, heads), terms);
    add_on_heads(all, std::move(terms), in, heads);
  }
  Variable heads = merge_heads(attend(in, std::move(all), training() ? shape_.dropout : 0, input.trace));
  return output_.forward(surroundings_.activation ? surroundings_.activation(heads) : heads);
}

}  // namespace fovea
