#include "attention/layers/unseen_rows.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "attention/engine/composed.h"
#include "autograd/node.h"
#include "autograd/operations.h"
#include "nn/auxiliary_losses.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/random.h"
#include "tensor/range.h"
#include "tensor/reduce.h"

namespace fovea {

// ---- Which pairs are seen

namespace {

thread_local SeenPairs* innermost = nullptr;

/// Whether one of the elements of x [..., T, ...] is true, over the dimensions `dims`, which are removed.
Tensor any_of(const Tensor& x, std::initializer_list<int> dims) {
  const Tensor count = sum(x.to(DType::f32), dims);
  return greater(count, constant(0, DType::f32, x.device()));
}

/// Whether a query sees a key in any head, [B or 1, I or 1, J]. `seen` is bool and broadcasts to [B, H, I, J].
Tensor in_any_head(Tensor seen) {
  while (seen.rank() < 4) seen = seen.unsqueeze(0);
  return seen.size(1) == 1 ? seen.select(1, 0) : any_of(seen, {1});
}

}  // namespace

SeenPairs::SeenPairs(bool collects) : collects_(collects), before_(std::exchange(innermost, this)) {}
SeenPairs::SeenPairs(Tensor marks, Tensor sums)
    : sums(std::move(sums)), marks_(std::move(marks)), collects_(false), before_(std::exchange(innermost, this)) {}
SeenPairs::~SeenPairs() { innermost = before_; }
SeenPairs* SeenPairs::current() { return innermost; }

void SeenPairs::add(const AttentionContext& in, const Plan& plan) {
  if (marks_.defined()) return add_marks(in, plan);
  if (!collects_ || sees_all_) return;
  const Tensor seen = allowed_keys(in, plan);
  sees_all_ = !seen.defined();
  if (sees_all_)
    pairs = Tensor();
  else
    pairs = is_first_ ? in_any_head(seen) : logical_or(pairs, in_any_head(seen));
  is_first_ = false;
}

namespace {

/// x, whose dimension `dim` has one entry for each query or one for all, for some of the I queries.
Tensor of_queries(const Tensor& x, int dim, std::int64_t I, std::int64_t first, std::int64_t end) {
  return x.defined() && x.rank() >= -dim && x.size(dim) == I && I > 1 ? x.slice(dim, first, end) : x;
}

/// allowed_keys() for the queries first <= i < end.
Tensor allowed_keys_of(AttentionContext in, Plan plan, std::int64_t first, std::int64_t end) {
  const std::int64_t I = in.query.size(2);
  auto cut = [&](KeyRange& keys) {
    for (Tensor* bound : {&keys.first, &keys.end}) *bound = of_queries(*bound, -1, I, first, end);
  };
  for (auto* ranges : {&plan.ranges, &plan.always})
    for (HeadKeys& range : *ranges) cut(range.keys);
  for (HeadMask& part : plan.masks) part.mask = of_queries(part.mask, -2, I, first, end);
  cut(in.visible);
  in.query_positions = Variable(of_queries(in.query_positions.value(), -1, I, first, end));
  return allowed_keys(in, plan);
}

}  // namespace

void SeenPairs::add_marks(const AttentionContext& in, const Plan& plan) {
  constexpr std::int64_t most_pairs = 1 << 24;
  const std::int64_t B = in.query.size(0), H = in.query.size(1), I = in.query.size(2), J = in.key.size(2);
  const std::int64_t rows = std::max<std::int64_t>(1, most_pairs / std::max<std::int64_t>(1, B * H * J));
  Tensor total;
  for (std::int64_t first = 0; first < I; first += rows) {
    const std::int64_t end = std::min(I, first + rows);
    const Tensor seen = allowed_keys_of(in, plan, first, end);
    if (!seen.defined()) {  // every query sees every key
      total = map(Add{}, sums, sum(marks_, {-1}, true));
      break;
    }
    const Tensor of_heads = in_any_head(seen);
    if (of_heads.size(1) == 1 || end - first == I) {  // all queries see the same keys, or this part is the whole
      total = sum_of_allowed(marks_, of_heads, sums);
      break;
    }
    if (first == 0) total = Tensor::empty({B, I}, marks_.dtype(), marks_.device());
    total.slice(1, first, end).copy_from(sum_of_allowed(marks_, of_heads, sums.slice(1, first, end)));
  }
  if (total.defined()) sums = total;
}

// ---- Numbers out of range

namespace {

bool are_within(const Variable& x, double limit) { return fovea::are_within(x.value(), limit); }

/// Whether all states of the input, on the CPU, are in range.
bool are_in_range(const AttentionInput& input) {
  const Variable &query = input.query, &key = input.key, &value = input.value;
  return are_within(key, largest_state) && (query.is_same(key) || are_within(query, largest_state)) &&
         (value.is_same(key) || value.is_same(query) || are_within(value, largest_state));
}

/// Whether the keys and values of a call of cross-attention with a memory are in range (±largest_state). Only the
/// first call examines them; the memory keeps the answer under `owner` as source rows [B, 1], which are 0 if it is yes.
bool is_source_in_range(const AttentionInput& input, const void* owner) {
  const Variable answer = input.memory->source_rows(owner, [&] {
    const bool inside = are_within(input.key, largest_state) &&
                        (input.value.is_same(input.key) || are_within(input.value, largest_state));
    return Variable(Tensor::full({input.key.size(0), 1}, inside ? 0 : 2 * largest_state, DType::f32));
  });
  return are_within(answer, largest_state);
}

/// Returns a bool tensor of the shape of x: true where an element is in range.
Tensor in_range(const Variable& x, double limit = largest_state) {
  return less_equal(map(Abs{}, x.value()), constant_like(x, limit));
}

/// x with 0 for all elements that are out of range and in rows where `keeps` is false; undefined: in all rows.
Variable without_rows(const Variable& x, const Tensor& keeps) {
  const Tensor inside = in_range(x);
  return where(keeps.defined() ? logical_or(inside, keeps.unsqueeze(-1)) : inside, x, constant_like(x, 0));
}

/// Applies change to queries, keys and values. Inputs that are one variable stay one, so that their projections remain
/// one product.
template <class Change>
AttentionInput with_states(AttentionInput input, const Change& change, bool and_query) {
  const Variable query = input.query, key = input.key;
  input.key = change(key);
  if (and_query) input.query = query.is_same(key) ? input.key : change(query);
  if (input.value.is_same(key))
    input.value = input.key;
  else
    input.value = and_query && input.value.is_same(query) ? input.query : change(input.value);
  return input;
}

// ---- Rows that no query sees

bool is_self_attention(const AttentionInput& input) { return input.query.is_same(input.key) && !input.memory; }

/// Whether a key is one of the first key_lengths keys of its sentence, bool [B, J]; undefined if there are no lengths.
Tensor before_lengths(const AttentionInput& input) {
  if (!input.key_lengths.defined() || input.key_lengths.elements() != input.key.size(0)) return {};
  const std::int64_t J = input.key.size(1);
  return input.once(fmt::format("before_lengths {} {}", static_cast<const void*>(input.key_lengths.address()), J), [&] {
    const Device device = input.key.device();
    const Tensor length = input.key_lengths.to(DType::i32).to(device).reshape({-1, 1});
    return less(shared_arange(J, DType::i32, device), length);
  });
}

/// The keys that a query sees by key_lengths, `allowed` and causality, bool [B or 1, J]; undefined: all of them. Errors
/// in the shapes are left to the attention, which reports them.
Tensor keys_of_input(const AttentionInput& input, const Tensor& before) {
  const Device device = input.key.device();
  Tensor seen = before;
  auto restrict = [&](const Tensor& more) { seen = seen.defined() ? logical_and(seen, more) : more; };
  const std::int64_t J = input.key.size(1), end = input.query_offset + input.query.size(1);
  if (input.causal && !input.memory && end < J)
    restrict(
        less(shared_arange(J, DType::i32, device), Tensor::full({1, 1}, static_cast<double>(end), DType::i32, device)));
  const Tensor& allowed = input.allowed;
  if (allowed.defined() && allowed.rank() == 4 && allowed.size(3) == J &&
      (allowed.size(0) == 1 || allowed.size(0) == input.key.size(0)) &&
      (allowed.dtype() == DType::boolean || allowed.dtype() == DType::u8))
    restrict(any_of(allowed.to(device), {1, 2}));
  return seen;
}

/// The rows of keys and of queries that the attention reads, bool [B or 1, T]; undefined: all of them.
struct ReadRows {
  Tensor of_key, of_query;
};

ReadRows read_rows(const AttentionInput& input) {
  const Tensor before = before_lengths(input), seen = keys_of_input(input, before);
  // A query behind key_lengths is padding in self-attention. One that `allowed` hides as a key is still a query.
  return {seen, is_self_attention(input) ? before : Tensor()};
}

/// The input whose rows that no query sees are read as 0 where they are out of range.
AttentionInput without_hidden_rows(const AttentionInput& input) {
  const auto [seen, before] = read_rows(input);
  if (!seen.defined()) return input;
  auto clean = [](const Tensor& keeps) { return [keeps](const Variable& x) { return without_rows(x, keeps); }; };
  if (seen.is_same_view(before)) return with_states(input, clean(seen), true);
  AttentionInput out = with_states(input, clean(seen), false);
  if (before.defined()) out.query = without_rows(input.query, before);
  return out;
}

// ---- Rows that some queries see

/// x; if the gradient is 0 everywhere, the backward pass ends here. Otherwise it would go on to compute 0 · NaN.
Variable unless_zero(const Variable& x) {
  return record("unless_zero", x.value(), {x}, [](const Variable& g) { return are_within(g, 0) ? Variable() : g; });
}

/// The rows of x with a number out of range, one byte for each.
std::vector<std::uint8_t> rows_out_of_range(const Variable& x) {
  return any_of(logical_not(in_range(x)), {-1}).to(DType::u8).to_vector<std::uint8_t>();
}

/// For each query, whether its result depends on a number out of range: one byte for each of [B, I]. `pairs` are the
/// pairs that are seen, `before` is before_lengths().
std::vector<std::uint8_t> queries_out_of_range(const AttentionInput& input, const Tensor& pairs, const Tensor& before) {
  const std::int64_t B = input.query.size(0), I = input.query.size(1), J = input.key.size(1);
  std::vector<std::uint8_t> found = rows_out_of_range(input.query);
  if (is_self_attention(input) && before.defined()) {
    const auto real = before.to(DType::u8).to_vector<std::uint8_t>();
    for (std::size_t k = 0; k < found.size(); ++k) found[k] &= real[k];
  }
  std::vector<std::uint8_t> keys = rows_out_of_range(input.key);
  const std::vector<std::uint8_t> values = rows_out_of_range(input.value);
  for (std::size_t k = 0; k < keys.size(); ++k) keys[k] |= values[k];
  std::vector<std::uint8_t> seen;
  std::int64_t by_sentence = 0, by_query = 0;  // strides of `pairs`
  if (pairs.defined()) {
    seen = pairs.to(DType::u8).to_vector<std::uint8_t>();
    by_query = pairs.size(1) > 1 ? J : 0;
    by_sentence = pairs.size(0) > 1 ? pairs.size(1) * J : 0;
  }
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t j = 0; j < J; ++j) {
      if (!keys[static_cast<std::size_t>(b * J + j)]) continue;
      for (std::int64_t i = 0; i < I; ++i)
        found[static_cast<std::size_t>(b * I + i)] |=
            seen.empty() || seen[static_cast<std::size_t>(b * by_sentence + i * by_query + j)];
    }
  return found;
}

/// The gradient of numbers that were replaced by 0 where they were out of range: 0 for those.
struct KeptGradient {
  static constexpr const char* name = "kept_gradient";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T gradient, T x, T kept) const {
    return select(x == kept, gradient, T(0));
  }
};

/// States without numbers out of range, and the marks of their rows: NaN for rows that are read and had such a number.
struct UsableStates {
  Variable states;
  Tensor marks;
};

/// The states x, of which only the rows in `read` are read. All layers look at the states of one source once.
UsableStates usable(const AttentionInput& input, const Variable& x, const Tensor& read) {
  const Tensor& states = x.value();
  auto look = [&] {
    // the result keeps both tensors, so that no others get their addresses
    return std::tuple(rows_within_range(states, read, largest_state, largest_state_on_device), states, read);
  };
  const bool is_source = !is_self_attention(input) && !x.is_same(input.query);
  const RowsWithinRange rows = std::get<0>(
      is_source ? input.once(
                      fmt::format("usable {} {} {} {} {}", static_cast<const void*>(states.address()), states.version(),
                                  states.strides(), states.shape(), static_cast<const void*>(read.address())),
                      look)
                : look());
  if (!should_record({&x})) return {Variable(rows.kept), rows.marks};
  return {record("within_range", rows.kept, {x},
                 [x = Saved(x), kept = rows.kept](const Gradients& g, const Node& node) -> Gradients {
                   return {map(KeptGradient{}, g[0], x.get(node), Variable(kept))};
                 }),
          rows.marks};
}

/// forward(input), computed once: states out of range are 0 in it, and the results of the queries that read one are
/// NaN.
Variable forward_with_nan_of_readers(const AttentionInput& input,
                                     const std::function<Variable(const AttentionInput&)>& forward) {
  const ReadRows read = read_rows(input);
  AttentionInput out = input;
  const UsableStates key = usable(input, input.key, read.of_key);
  const UsableStates query = input.query.is_same(input.key) && read.of_key.is_same_view(read.of_query)
                                 ? key
                                 : usable(input, input.query, read.of_query);
  out.key = out.value = key.states;
  out.query = query.states;
  Tensor marks = key.marks;
  if (!input.value.is_same(input.key)) {
    const bool is_query = input.value.is_same(input.query) && read.of_key.is_same_view(read.of_query);
    const UsableStates value = is_query ? query : usable(input, input.value, read.of_key);
    out.value = value.states;
    marks = map(Add{}, marks, value.marks);
  }
  SeenPairs pairs(marks, query.marks);
  const Variable made = forward(out);
  if (!input.marks) return made + Variable(pairs.sums.unsqueeze(-1));
  *input.marks = pairs.sums;
  return made;
}

}  // namespace

Variable forward_without_unseen(const AttentionInput& input, const void* owner, bool keeps_source,
                                const std::function<Variable(const AttentionInput&)>& forward) {
  if (SeenPairs::current()) return forward(input);
  auto once = [&](const AttentionInput& clean) {
    SeenPairs nested(false);
    return forward(clean);
  };
  for (const Variable* states : {&input.query, &input.key, &input.value})
    if (states->rank() != 3 || !is_float(states->dtype())) return once(input);  // throws Error
  if (input.memory && (input.causal || (keeps_source && input.query_offset > 0))) return once(input);
  if (input.key.device() != Device::cpu)
    return input.memory ? once(without_hidden_rows(input)) : forward_with_nan_of_readers(input, forward);
  if (input.memory) return once(is_source_in_range(input, owner) ? input : without_hidden_rows(input));
  if (are_in_range(input)) return once(input);

  const std::optional<RandomPosition> position = RandomScope::position();
  AttentionTrace trace = input.trace ? *input.trace : AttentionTrace{};
  AttentionInput clean = with_states(
      input, [](const Variable& x) { return without_rows(x, {}); }, true);
  if (input.trace) clean.trace = &trace;
  SeenPairs seen(true);
  const Variable out = forward(clean);
  const std::vector<std::uint8_t> reads = queries_out_of_range(input, seen.pairs, before_lengths(input));
  if (std::find(reads.begin(), reads.end(), 1) == reads.end()) {
    if (input.trace) *input.trace = std::move(trace);
    return out;
  }
  // once more with the numbers as they are, with the same dropout; auxiliary losses count the first time only
  auto again = [&] {
    AuxiliaryLosses discarded;
    return once(without_hidden_rows(input));
  };
  Variable as_it_is;
  if (position) {
    RandomScope random = RandomScope::at(*position);
    as_it_is = again();
  } else
    as_it_is = again();
  return where(Tensor::from(reads, {out.size(0), out.size(1), 1}), unless_zero(as_it_is), out);
}

}  // namespace fovea
