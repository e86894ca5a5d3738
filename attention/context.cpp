#include "attention/context.h"

#include <cmath>

#include "autograd/operations.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"

namespace fovea {

double AttentionContext::scale() const { return 1 / std::sqrt(static_cast<double>(query.size(-1))); }

Variable AttentionContext::newest_key() const {
  std::int64_t J = key.size(2), newest = key_states.size(1);
  return newest == J ? key : slice(key, 2, J - newest, J);
}

Variable AttentionContext::in_row(const Variable& position) const {
  return document_start.defined() ? position + document_start : position;
}

Tensor AttentionContext::allow() const { return allowed_pairs(visible, key.size(2)); }

Tensor AttentionContext::seen() const {
  const Tensor visible = allow();
  if (!visible.defined() || !allowed.defined()) return visible.defined() ? visible : allowed;
  return logical_and(visible, allowed);
}

Variable without_padding(const AttentionContext& in, const Variable& x) {
  if (!in.visible.end.defined() || in.query.size(2) == 0) return x;
  const std::int64_t I = in.visible.end.size(2), J = x.size(2);
  // in causal attention the last query sees every key that is not padding
  const Tensor real = allowed_pairs({{}, in.visible.end.slice(2, I - 1, I)}, J);
  return where(real.reshape({real.size(0), 1, J, 1}), x, Tensor::zeros({1}, x.dtype(), x.device()));
}

namespace {

/// allowed_pairs() of a range with at least one bound.
Tensor make_pairs(const KeyRange& range, std::int64_t J, std::int64_t first_key) {
  auto column = [](const Tensor& bound) { return bound.unsqueeze(-1); };
  const Device device = (range.end.defined() ? range.end : range.first).device();
  const Tensor key = shared_arange(J, DType::i32, device, first_key);
  Tensor allow;
  if (range.end.defined()) allow = less(key, column(range.end));
  if (!range.first.defined()) return allow;
  const Tensor after = less_equal(column(range.first), key);
  return allow.defined() ? logical_and(allow, after) : after;
}

}  // namespace

bool KnownPairs::Key::is_same(const Key& other) const {
  return first.is_same_view(other.first) && end.is_same_view(other.end) && version == other.version &&
         keys == other.keys && position == other.position && queries == other.queries;
}

Tensor allowed_pairs(const KeyRange& range, std::int64_t J, std::int64_t first_key) {
  if (!range.first.defined() && !range.end.defined()) return {};
  if (!range.known) return make_pairs(range, J, first_key);
  constexpr std::int64_t most_kept = 1 << 24;  // larger masks would take more memory than the blockwise engine
  KnownPairs& known = *range.known;
  const KnownPairs::Key key{range.first, range.end, KnownPairs::version(range), J, first_key};
  if (known.pairs.defined() && known.of_pairs.is_same(key)) return known.pairs;
  Tensor pairs = make_pairs(range, J, first_key);
  if (pairs.elements() <= most_kept) known.of_pairs = key, known.pairs = pairs;
  return pairs;
}

Variable slice_heads(const Variable& x, HeadRange heads) {
  return heads.count == x.size(-3) ? x : slice(x, -3, heads.first, heads.first + heads.count);
}

Variable replace_heads(const Variable& outside, const Variable& middle, HeadRange heads) {
  std::int64_t H = outside.size(-3), end = heads.first + heads.count;
  std::vector<Variable> pieces;
  if (heads.first > 0) pieces.push_back(slice(outside, -3, 0, heads.first));
  pieces.push_back(middle);
  if (end < H) pieces.push_back(slice(outside, -3, end, H));
  return pieces.size() == 1 ? middle : concat(pieces, -3);
}

AttentionContext context_of_heads(const AttentionContext& in, HeadRange heads) {
  AttentionContext out = in;
  if (heads.count == 0 || heads.count == in.query.size(1)) return out;
  out.whole = std::make_shared<AttentionContext>(in);
  out.query = slice_heads(in.query, heads);
  out.key = slice_heads(in.key, heads);
  out.value = slice_heads(in.value, heads);
  const std::int64_t end = heads.first + heads.count;
  if (in.allowed.defined() && in.allowed.size(1) > 1) out.allowed = in.allowed.slice(1, heads.first, end);
  for (Variable* given : {&out.mask, &out.left_pointer, &out.right_pointer, &out.previous_focus})
    if (given->defined() && given->size(1) > 1) *given = slice(*given, 1, heads.first, end);
  return out;
}

Variable split_heads(const Variable& x, std::int64_t head_dim) {
  return transpose(reshape(x, {x.size(0), x.size(1), x.size(2) / head_dim, head_dim}), 1, 2);
}

Variable merge_heads(const Variable& x) {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

}  // namespace fovea
