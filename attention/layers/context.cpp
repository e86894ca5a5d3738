#include "attention/layers/context.h"

#include <algorithm>
#include <set>

#include "nn/linear.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

/// Throws Error unless the lengths are [B] and, if the caller has not checked that, in 0 … J. A wrong length on a GPU
/// is an error when the host next waits for the GPU.
void check_lengths(const AttentionInput& input, std::int64_t J) {
  const Tensor& lengths = input.key_lengths;
  require(lengths.rank() == 1, "attention: the key lengths are {}; expected one dimension, [B]", lengths);
  require(lengths.shape().elements() == input.key.size(0),
          "attention: there are {} key lengths for {} sentences; expected one for each", lengths.shape().elements(),
          input.key.size(0));
  if (!input.key_lengths_are_checked) require_between("attention", "key length", lengths, 0, J);
}

/// The keys that each query may see by length and causality: bounds of [B or 1, 1, I or 1].
KeyRange visible_keys(const AttentionInput& input, std::int64_t I, std::int64_t J) {
  const Device device = input.query.device();
  Tensor length, prefix;
  if (input.key_lengths.defined()) {
    check_lengths(input, J);
    length = input.key_lengths.to(DType::i32).to(device).reshape({-1, 1, 1});
  }
  if (input.causal) prefix = shared_arange(I, DType::i32, device, input.query_offset + 1).reshape({1, 1, I});
  if (!length.defined()) return {{}, prefix};
  if (!prefix.defined()) return {{}, length};
  return {{}, where(less(length, prefix), length, prefix)};
}

/// Number of keys that each query may see: [B or 1, 1, 1], or [B or 1, 1, I] if causal.
Tensor visible_length(const AttentionInput& input, std::int64_t I, std::int64_t J, DType dtype) {
  const Device device = input.query.device();
  Tensor length = input.key_lengths.defined() ? input.key_lengths.to(device).to(dtype).reshape({-1, 1, 1})
                                              : Tensor::full({1, 1, 1}, static_cast<double>(J), dtype, device);
  if (input.causal) length = map(Minimum{}, length, shared_arange(I, dtype, device, input.query_offset + 1));
  return length;
}

/// The tensors that all attentions of a call of the model derive from the same lengths, causality and sizes.
struct LengthsOfCall {
  KeyRange visible;
  Tensor length, query_positions, key_positions;
};

LengthsOfCall lengths_of_call(const AttentionInput& input, std::int64_t I, std::int64_t J) {
  const DType dtype = input.query.dtype();
  const void* lengths = input.key_lengths.defined() ? input.key_lengths.address() : nullptr;
  const std::string name =
      fmt::format("lengths {} {} {} {} {} {}", lengths, I, J, input.causal, input.query_offset, fovea::name(dtype));
  return input.once(name, [&] {
    LengthsOfCall made{visible_keys(input, I, J), visible_length(input, I, J, dtype),
                       shared_arange(I, dtype, input.query.device(), input.query_offset),
                       shared_arange(J, dtype, input.query.device())};
    if (input.shared) made.visible.known = std::make_shared<KnownPairs>();
    return made;
  });
}

/// For each token, the interval of the tokens of its document, i32 [B, 1, T]. Throws Error unless this is
/// self-attention over whole rows without a memory and the tokens of each document are neighbours.
KeyRange document_of_tokens(const AttentionInput& input, Place place) {
  const Tensor& documents = input.documents;
  const std::int64_t B = input.key.size(0), T = input.key.size(1);
  require(place != Place::cross && !input.memory && input.query_offset == 0 && input.query.size(1) == T,
          "attention: documents need self-attention over whole rows, without a decoder's memory");
  require(documents.device() == Device::cpu && (documents.dtype() == DType::i32 || documents.dtype() == DType::i64) &&
              documents.shape() == Shape{B, T},
          "attention: the documents are {} on {}; expected the number of each token's document, i32 or i64 [{}, {}] on "
          "the CPU",
          documents, name(documents.device()), B, T);
  const std::vector<std::int64_t> number = documents.to(DType::i64).to_vector<std::int64_t>();
  std::vector<std::int64_t> first(number.size()), end(number.size());
  for (std::int64_t b = 0; b < B; ++b) {
    const auto row = static_cast<std::size_t>(b * T), tokens = static_cast<std::size_t>(T);
    std::set<std::int64_t> seen;
    for (std::size_t begin = 0, next = 0; begin < tokens; begin = next) {
      while (next < tokens && number[row + next] == number[row + begin]) ++next;
      require(seen.insert(number[row + begin]).second,
              "attention: document {} of row {} has tokens in two places; those of one document must be neighbours",
              number[row + begin], b);
      std::fill(&first[row + begin], &first[row] + next, static_cast<std::int64_t>(begin));
      std::fill(&end[row + begin], &end[row] + next, static_cast<std::int64_t>(next));
    }
  }
  auto bound = [&](const std::vector<std::int64_t>& x) {
    return Tensor::from(x, {B, 1, T}).to(DType::i32).to(input.query.device());
  };
  return {bound(first), bound(end)};
}

/// Restricts queries to the keys of their document, and counts lengths from the document's start.
void add_documents(const AttentionInput& input, AttentionContext& in) {
  const KeyRange documents = document_of_tokens(input, in.place);
  const DType dtype = input.query.dtype();
  const Tensor& before = in.visible.end;
  in.visible = {documents.first,
                before.defined() ? where(less(before, documents.end), before, documents.end) : documents.end};
  in.document_start = documents.first.to(dtype);
  const Tensor length = map(Subtract{}, in.visible.end.to(dtype), in.document_start.value());
  in.length = map(Maximum{}, length, constant(0, dtype, input.query.device()));  // a padded query has length 0
}

/// The previous focus with a dimension of heads: [B] → [B, 1], and [B, H] as it is; undefined if `focus` is. Throws
/// Error for other shapes.
Variable focus_of_heads(const Variable& focus, std::int64_t B) {
  if (!focus.defined()) return focus;
  require((focus.rank() == 1 || focus.rank() == 2) && focus.size(0) == B,
          "attention: the previous focus is {}; expected [{}] or one per head, [{}, H]", focus, B, B);
  return focus.rank() == 1 ? unsqueeze(focus, 1) : focus;
}

}  // namespace

void require_states(const AttentionInput& input, std::int64_t query_dim, std::int64_t key_dim, std::int64_t value_dim) {
  const Shape &q = input.query.shape(), &k = input.key.shape(), &v = input.value.shape();
  require(q.rank() == 3 && k.rank() == 3 && v.rank() == 3 && q[0] == k[0] && k[0] == v[0] && k[1] == v[1] &&
              q[2] == query_dim && k[2] == key_dim && v[2] == value_dim,
          "attention: query {}, key {}, value {}; expected [B, I, {}], [B, J, {}] and [B, J, {}]", q, k, v, query_dim,
          key_dim, value_dim);
}

AttentionContext context_of(const AttentionInput& input, Place place) {
  const std::int64_t farthest = std::int64_t{1} << (input.query.dtype() == DType::f64 ? 30 : 24);  // exact in f32
  require(0 <= input.query_offset && input.query_offset <= farthest,
          "attention: the first query is at position {} (query_offset); it must be in 0 to {} in {}",
          input.query_offset, farthest, name(input.query.dtype()));
  std::int64_t B = input.query.size(0), I = input.query.size(1), J = input.key_count();
  require(!input.step_input.defined() ||
              (input.step_input.rank() == 3 && input.step_input.size(0) == B && input.step_input.size(1) == I),
          "attention: the step input is {}; expected [{}, {}, d_e]", input.step_input, B, I);
  AttentionContext in;
  in.query_states = input.query;
  in.key_states = input.key;
  const LengthsOfCall lengths = lengths_of_call(input, I, J);
  in.visible = lengths.visible;
  in.causal = input.causal;
  in.query_offset = input.query_offset;
  in.place = place;
  in.length = Variable(lengths.length);
  if (input.documents.defined()) add_documents(input, in);
  in.query_positions = lengths.query_positions;
  in.key_positions = lengths.key_positions;
  in.step_input = input.step_input;
  in.previous_focus = focus_of_heads(input.previous_focus, B);
  in.memory = input.memory;
  return in;
}

void require_stored_keys(const AttentionInput& input, const AttentionContext& in) {
  std::int64_t B = in.key.size(0), J = in.key.size(2);
  require(
      B == input.query.size(0) && J == input.key_count(),
      "attention: the memory has {} keys of {} sentences, but this call has queries from position {} and {} keys of {} "
      "sentences; use a new memory for a new source",
      J - (input.appends_keys() ? input.key.size(1) : 0), B, input.query_offset, input.key.size(1),
      input.query.size(0));
}

namespace {
/// TokenPositions::document_start of the queries. It serves the keys too, because documents occur only in
/// self-attention, where queries and keys are the same tokens.
Tensor document_starts(const AttentionContext& in) {
  return in.document_start.defined() ? in.document_start.value() : Tensor();
}
}  // namespace

void position_heads(AttentionContext& in, const void* owner, const PositionHeads& positioned) {
  in.query = positioned(in.query, {in.query_offset, document_starts(in)});
  in.key = transpose(in.all_keys(owner,
                                 [&] {
                                   Variable newest = in.newest_key();
                                   const std::int64_t first = in.key.size(2) - newest.size(2);
                                   return transpose(positioned(newest, {first, document_starts(in)}), 1, 2);
                                 }),
                     1, 2);
}

void position_second_maps(const AttentionContext& in, Plan& plan, const PositionHeads& positioned) {
  for (SecondMap& part : plan.second_maps) {
    Score& score = part.score;
    if (score.form != Score::Form::product || score.queries.size(-1) != in.query.size(-1)) continue;
    const HeadRange heads = resolved(part.heads, in.query.size(1));
    // positioned() takes all H heads; the results for heads outside of the map are discarded
    auto position = [&](Variable& x, const Variable& all, std::int64_t first) {
      x = slice_heads(positioned(replace_heads(all, x, heads), {first, document_starts(in)}), heads);
    };
    position(score.queries, in.query, in.query_offset);
    if (!part.owner) {
      position(score.keys, in.key, 0);
      continue;
    }
    auto newest = [&] {
      const Variable all = in.newest_key();
      const std::int64_t J = in.key.size(2), first = J - all.size(2);
      Variable keys = first == 0 ? score.keys : slice(score.keys, 2, first, J);
      position(keys, all, first);
      return transpose(keys, 1, 2);
    };
    score.keys = transpose(in.all_keys(part.owner, newest), 1, 2);
  }
}

namespace {

/// Whether `shape` is `pairs`, [B, H, I, J], where all but the last dimension may be 1.
bool fits_pairs(const Shape& shape, const Shape& pairs) {
  bool fits = shape.rank() == 4 && shape[3] == pairs[3];
  for (int dim = 0; fits && dim < 3; ++dim) fits = shape[dim] == 1 || shape[dim] == pairs[dim];
  return fits;
}

/// The mask cast to `dtype`; undefined if `mask` is. Throws Error for a mask of another shape.
Variable checked_mask(const Variable& mask, const Shape& pairs, DType dtype) {
  if (!mask.defined() || !mask.value().defined()) return {};
  require(fits_pairs(mask.shape(), pairs), "attention: the mask is {}; expected {}, where all but the last may be 1",
          mask.shape(), pairs);
  return cast(mask, dtype);
}

/// AttentionInput::allowed as bool on this device; undefined if `allowed` is. Throws Error for another shape or type.
Tensor checked_allowed(const Tensor& allowed, const Shape& pairs, Device device) {
  if (!allowed.defined()) return {};
  require((allowed.dtype() == DType::boolean || allowed.dtype() == DType::u8) && fits_pairs(allowed.shape(), pairs),
          "attention: 'allowed' is {}; expected bool or u8 {}, where all but the last may be 1", allowed, pairs);
  const Tensor mask = allowed.to(device);
  return mask.dtype() == DType::u8 ? greater(mask, constant(0, DType::u8, device)) : mask;
}

/// AttentionContext::left_pointer or right_pointer from the member of the input called `name`. Throws Error for a wrong
/// shape or type.
Variable checked_pointer(const char* name, const Variable& pointer, const Shape& pairs, DType dtype) {
  if (!pointer.defined() || !pointer.value().defined()) return {};
  const bool position = pointer.dtype() == DType::i32 || pointer.dtype() == DType::i64;
  bool fits = position ? pointer.rank() == 3 : is_float(pointer.dtype()) && fits_pairs(pointer.shape(), pairs);
  for (int dim = 0; fits && dim < 3; ++dim) fits = pointer.size(dim) == 1 || pointer.size(dim) == pairs[dim];
  require(fits,
          "attention: {} is {}; expected positions, i32 or i64 [{}, {}, {}], or distributions over the keys, floating "
          "point {}; all sizes but the number of keys may be 1",
          name, pointer, pairs[0], pairs[1], pairs[2], pairs);
  if (!position) return cast(pointer, dtype);
  require_between("attention", name, pointer.value(), 0, pairs[3] - 1);
  return pointer.value().to(dtype);
}

/// Rows and columns of the tokens first ≤ t < first + count, [B or 1, 1, count, 2], in the type of `like`.
Variable tokens_of_grid(const Tensor& grid, std::int64_t first, std::int64_t count, const Variable& like) {
  const Tensor rows = grid.to(like.dtype()).to(like.device());
  return rows.reshape({rows.rank() == 3 ? rows.size(0) : 1, 1, rows.size(-2), 2}).slice(2, first, first + count);
}

void add_grid(AttentionContext& in, const AttentionInput& input, const Shape& pairs) {
  const Tensor& grid = input.grid;
  if (!grid.defined()) return;
  const std::int64_t I = pairs[2], J = pairs[3];
  require(in.place != Place::cross && in.query_offset + I <= J,
          "attention: a grid is for self-attention, where each query is the token of a key; there are queries at the "
          "positions {} to {} of {} keys",
          in.query_offset, in.query_offset + I - 1, J);
  require((grid.dtype() == DType::i32 || grid.dtype() == DType::i64) &&
              (grid.shape() == Shape{J, 2} || grid.shape() == Shape{1, J, 2} || grid.shape() == Shape{pairs[0], J, 2}),
          "attention: the grid is {}; expected the row and column of each token, i32 or i64 [{}, {}, 2] or [{}, 2]",
          grid, pairs[0], J, J);
  constexpr std::int64_t largest = 1 << 24;  // differences are exact in f32
  require_between("attention", "grid", grid, -largest, largest);
  in.query_grid = tokens_of_grid(grid, in.query_offset, I, input.query);
  in.key_grid = tokens_of_grid(grid, 0, J, input.query);
}

}  // namespace

void add_given(AttentionContext& in, const AttentionInput& input) {
  const DType dtype = input.query.dtype();
  const Shape pairs = in.pairs();
  in.mask = checked_mask(input.mask, pairs, dtype);
  in.allowed = checked_allowed(input.allowed, pairs, input.query.device());
  in.left_pointer = checked_pointer("left_pointer", input.left_pointer, pairs, dtype);
  in.right_pointer = checked_pointer("right_pointer", input.right_pointer, pairs, dtype);
  add_grid(in, input, pairs);
}

AttentionShape with_widths(AttentionShape shape) {
  for (std::int64_t* width : {&shape.query_dim, &shape.key_dim, &shape.value_dim})
    if (*width <= 0) *width = shape.model_dim;
  return shape;
}

Variable AttentionContext::project(const Linear& layer, const Variable& states) const {
  if (projected)
    for (const ProjectedStates& known : *projected) {
      if (!known.states.is_same(states)) continue;
      if (auto found = known.results.find(&layer); found != known.results.end()) return found->second;
    }
  return layer.forward(states);
}

}  // namespace fovea
