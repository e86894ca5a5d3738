#include "attention/engine/blocks.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "autograd/operations.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

PairDimensions dimensions_of(Per per) {
  switch (per) {
    case Per::head:
      return {.head = 1};
    case Per::query:
      return {.head = 2, .query = 1};
    case Per::key:
      return {.head = 2, .key = 1};
    case Per::pair:
      return {.head = 3, .query = 2, .key = 1};
    case Per::offset:
    case Per::query_vector:
      return {.head = 3, .query = 2};
    case Per::key_vector:
      return {.head = 3, .key = 2};
    case Per::whole:
      break;
  }
  return {};
}

void for_variables(Plan& plan, std::int64_t H, const std::function<void(Variable&, PairDimensions, HeadRange)>& f) {
  const PairDimensions of_queries = dimensions_of(Per::query_vector), of_keys = dimensions_of(Per::key_vector);
  auto of_score = [&](Score& score, HeadRange heads) {
    f(score.queries, of_queries, heads);
    f(score.keys, of_keys, heads);
    // the weight behind a hidden layer is [n] or [n, D] for all heads, or [h, n] or [h, n, D]
    const int rank = score.form == Score::Form::hidden ? 2 : 3;
    const bool by_head = score.weight.defined() && score.weight.rank() == rank;
    f(score.weight, PairDimensions{.head = by_head ? rank : 0}, heads);
  };
  auto of_capture = [&](Capture& capture, HeadRange heads) { f(capture.value, dimensions_of(capture.per), heads); };
  auto of_captures = [&](auto& parts) {
    for (auto& part : parts)
      for (Capture& capture : part.captures) of_capture(capture, resolved(part.heads, H));
  };
  for (Score& score : plan.scores) of_score(score, resolved(score.heads, H));
  for (auto* terms : {&plan.score_changes, &plan.biases, &plan.windows}) of_captures(*terms);
  of_captures(plan.values);
  of_captures(plan.normalizers);
  for (HeadMixing& part : plan.mixings) {  // heads that read each other are always in one block
    f(part.before, PairDimensions{}, resolved(part.heads, H));
    f(part.after, PairDimensions{}, resolved(part.heads, H));
  }
  for (SecondMap& part : plan.second_maps) {
    of_score(part.score, resolved(part.heads, H));
    of_capture(part.factor, resolved(part.heads, H));
  }
  for (ExtraKeys& part : plan.extra_keys) {
    f(part.keys, PairDimensions{.head = 3}, resolved(part.heads, H));
    f(part.values, PairDimensions{.head = 3}, resolved(part.heads, H));
  }
  if (plan.focus) {  // a block of a plan with a focus has all heads
    f(plan.focus->gate, dimensions_of(Per::query), resolved(plan.focus->heads, H));
    f(plan.focus->previous, PairDimensions{.head = 1}, resolved(plan.focus->heads, H));
  }
  f(plan.sink, PairDimensions{.head = 1}, HeadRange{0, H});
}

Plan plan_of_heads(Plan plan, HeadRange heads, std::int64_t H) {
  // the slice of a dimension that counts the heads of a part
  auto cut = [&](auto& x, int dimension, HeadRange part, const auto& slice_of) {
    const HeadRange own = common_heads(part, heads);
    if (!x.defined() || own.count == 0 || own.count == part.count) return;
    if (dimension == 0 || x.rank() < dimension || x.size(-dimension) == 1) return;
    x = slice_of(x, -dimension, own.first - part.first, own.first - part.first + own.count);
  };
  auto cut_tensor = [&](Tensor& x, int dimension, HeadRange part) {
    cut(x, dimension, part, [](auto& t, int d, auto begin, auto end) { return t.slice(d, begin, end); });
  };
  for_variables(plan, H, [&](Variable& x, PairDimensions dimensions, HeadRange part) {
    cut(x, dimensions.head, part, [](auto& v, int d, auto begin, auto end) { return slice(v, d, begin, end); });
  });
  for (auto* ranges : {&plan.ranges, &plan.always})
    for (HeadKeys& part : *ranges)
      for (Tensor* bound : {&part.keys.first, &part.keys.end}) cut_tensor(*bound, 2, resolved(part.heads, H));
  for (HeadMask& part : plan.masks) cut_tensor(part.mask, 3, resolved(part.heads, H));
  if (plan.focus) {
    const HeadRange own = common_heads(resolved(plan.focus->heads, H), heads);
    plan.focus->heads = {own.first - heads.first, own.count};
    if (own.count == 0) plan.focus.reset();
  }
  keep_heads(plan, heads, H);
  return plan;
}

void keep_heads(Plan& plan, HeadRange heads, std::int64_t H) {
  auto keep = [&](auto& parts) {
    for (auto& part : parts) {
      const HeadRange own = common_heads(resolved(part.heads, H), heads);
      part.heads = {own.first - heads.first, own.count};
    }
    std::erase_if(parts, [](const auto& part) { return part.heads.count == 0; });
  };
  keep(plan.scores), keep(plan.score_changes), keep(plan.biases), keep(plan.windows), keep(plan.values);
  keep(plan.normalizers), keep(plan.mixings), keep(plan.second_maps), keep(plan.extra_keys);
  keep(plan.ranges), keep(plan.dilations), keep(plan.always), keep(plan.masks);
  for (SecondMap& part : plan.second_maps) part.score.heads = part.heads;
}

Tensor rows_of(const Tensor& x, int dimension, Indices rows) {
  if (!x.defined() || dimension == 0 || x.rank() < dimension || x.size(-dimension) == 1) return x;
  if (rows.step == 1) return x.slice(-dimension, rows.first, rows.first + rows.count);
  const int dim = x.rank() - dimension;
  Shape shape = x.shape(), strides = x.strides();
  const std::int64_t offset = rows.first * strides[dim];
  shape[dim] = rows.count;
  strides[dim] *= rows.step;
  return x.as_strided(shape, strides, offset);
}

Tensor of_block(const Tensor& x, PairDimensions dimensions, HeadRange part, const PairBlock& block) {
  const HeadRange own = common_heads(part, block.heads);
  if (own.count == 0) return {};
  return rows_of(
      rows_of(rows_of(x, dimensions.head, {own.first - part.first, own.count}), dimensions.query, block.queries),
      dimensions.key, block.keys);
}

KeyRange range_of_block(const KeyRange& range, HeadRange part, const PairBlock& block) {
  auto bound = [&](const Tensor& whole) {
    const Tensor x = of_block(whole, {.head = 2, .query = 1}, part, block);
    const Indices& keys = block.keys;
    if (!x.defined() || (keys.first == 0 && keys.step == 1)) return x;
    // ⌈(x − first) / step⌉ = −⌊(first − x) / step⌋; + 0.5 / step protects exact quotients from rounding errors
    const auto first = static_cast<double>(keys.first), step = static_cast<double>(keys.step);
    const Tensor floor = map(Floor{}, map(Affine{-1 / step, (first + 0.5) / step}, x.to(DType::f64)));
    return map(Affine{-1, 0}, floor).to(DType::i32);
  };
  return {bound(range.first), bound(range.end)};
}

namespace {

// ---- Groups of heads that are computed separately

/// Whether a capture is Per::whole. Such a capture may have a dimension of heads anywhere, so heads cannot be cut from
/// it.
template <class Captures>
bool has_whole(const Captures& captures) {
  return std::any_of(captures.begin(), captures.end(), [](const Capture& x) { return x.per == Per::whole; });
}

/// Whether each dimension of the values has a logit of its own.
bool is_by_dimension(const Score& score) { return score.form == Score::Form::hidden_by_dimension; }

/// Divides the heads into groups with equal hard windows, so that no head computes keys which only another head sees.
/// Heads stay in one group if they read each other, or if a part of the plan that acts on them cannot be divided by
/// heads.
std::vector<HeadRange> head_groups(const AttentionContext& in, const Plan& plan) {
  const std::int64_t H = in.query.size(1);
  if (!plan.mixings.empty() || std::any_of(plan.scores.begin(), plan.scores.end(), is_by_dimension)) return {{0, H}};
  std::set<std::int64_t> cuts;
  auto add = [&](const auto& parts) {
    for (const auto& part : parts) {
      const HeadRange heads = resolved(part.heads, H);
      cuts.insert({heads.first, heads.first + heads.count});
    }
  };
  add(plan.ranges), add(plan.dilations), add(plan.always);
  // a part on both sides of a cut is divided; that requires that the dimension of heads of its captures is known
  auto keep_together = [&](HeadRange part, bool divisible) {
    const HeadRange heads = resolved(part, H);
    if (!divisible)
      std::erase_if(cuts, [&](std::int64_t cut) { return heads.first < cut && cut < heads.first + heads.count; });
  };
  for (const auto* terms : {&plan.score_changes, &plan.biases, &plan.windows})
    for (const PairTerm& term : *terms) keep_together(term.heads, !has_whole(term.captures));
  for (const Normalizer& part : plan.normalizers) keep_together(part.heads, !has_whole(part.captures));
  for (const SecondMap& part : plan.second_maps)
    keep_together(part.heads, !is_by_dimension(part.score) && part.factor.per != Per::whole);
  cuts.insert({0, H});
  std::vector<HeadRange> groups;
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) groups.push_back({*cut, *std::next(cut) - *cut});
  return groups;
}

// ---- The keys that the queries of a group of heads see

/// Whether a part of the plan on these heads reads also keys that no query sees, as the pointers of a window do.
bool reads_all_keys(const Plan& plan, HeadRange group, std::int64_t H) {
  auto is_in = [&](HeadRange heads) { return common_heads(resolved(heads, H), group).count > 0; };
  for (const auto* terms : {&plan.score_changes, &plan.biases, &plan.windows})
    for (const PairTerm& term : *terms) {
      if (!is_in(term.heads)) continue;
      if (std::holds_alternative<PointerWindow>(term.what)) return true;
      const auto* custom = std::get_if<std::shared_ptr<const CustomTerm>>(&term.what);
      if (custom && !(*custom)->is_of_seen_pairs()) return true;
    }
  return false;
}

/// For each query, the smallest interval that contains all keys which it sees in any sentence and any head of the
/// group. On other devices than the CPU, where reading the bounds would wait for the device: all keys, or in causal
/// attention those up to the query's position.
std::vector<Interval> seen_keys(const AttentionContext& in, const Plan& plan, HeadRange group) {
  const std::int64_t I = in.query.size(2), J = in.key.size(2);
  std::vector<Interval> seen(static_cast<std::size_t>(I), Interval{0, J});
  if (in.query.device() != Device::cpu) {
    for (std::int64_t i = 0; in.causal && i < I; ++i)
      seen[static_cast<std::size_t>(i)].end = std::min(J, in.query_offset + i + 1);
    return seen;
  }
  const SeenKeys keys(in, plan);
  const std::int64_t sentences = keys.varies(0, group) ? in.query.size(0) : std::min<std::int64_t>(in.query.size(0), 1),
                     end_head = group.first + (keys.varies(1, group) ? group.count : 1);
  for (std::int64_t i = 0; i < I; ++i) {
    Interval& all = seen[static_cast<std::size_t>(i)] = {J, 0};
    for (std::int64_t b = 0; b < sentences; ++b)
      for (std::int64_t h = group.first; h < end_head; ++h)
        for (std::size_t k = 0; k < keys.intervals(); ++k)
          if (const Interval own = keys.interval(k, keys.visible(b, h, i), b, h, i); !own.empty())
            all = all.joined(own);
  }
  return seen;
}

/// The modulus of the residue classes into which the queries and keys of a group are divided: the least common multiple
/// of its dilations, but at most the number of positions, with which each class has one position. 1, which means no
/// division, if some head has no dilation or also sees keys of other classes.
std::int64_t step_of_classes(const AttentionContext& in, const Plan& plan, HeadRange group) {
  const std::int64_t H = in.query.size(1);
  auto is_in = [&](const auto& part) { return common_heads(resolved(part.heads, H), group).count > 0; };
  if (std::any_of(plan.always.begin(), plan.always.end(), is_in)) return 1;
  std::int64_t step = 1;
  for (const HeadDilation& part : plan.dilations) {
    if (!is_in(part)) continue;
    if (common_heads(resolved(part.heads, H), group).count < group.count) return 1;
    const std::int64_t most = in.farthest() + 1;
    step = std::min(std::lcm(step, std::min(part.step, most)), most);
  }
  return step;
}

/// The smallest number ≥ `least` that is equal to `residue` modulo `step`.
std::int64_t first_of_class(std::int64_t least, std::int64_t residue, std::int64_t step) {
  return least + ((residue - least) % step + step) % step;
}

/// The number of queries in a block, so that the block has about a million pairs. With hard windows it is at most the
/// number of keys that a query sees (or 64): in larger blocks most pairs would be masked.
std::int64_t queries_of_block(const AttentionContext& in, HeadRange group, const std::vector<Interval>& seen,
                              std::int64_t step) {
  std::int64_t total = 0, count = 0;
  for (const Interval& keys : seen)
    if (!keys.empty()) total += keys.end - keys.first, ++count;
  const std::int64_t width = total / std::max<std::int64_t>(count, 1) / step + 1,
                     keys = std::min(2 * width, in.key.size(2) / step + 1),
                     pairs = std::max<std::int64_t>(in.query.size(0) * group.count * keys, 1);
  return std::clamp<std::int64_t>((std::int64_t{1} << 20) / pairs, 16, std::max<std::int64_t>(width, 64));
}

}  // namespace

std::vector<PairBlock> pair_blocks(const AttentionContext& in, const Plan& plan, std::int64_t queries, bool every_key) {
  const std::int64_t H = in.query.size(1), I = in.query.size(2), J = in.key.size(2);
  std::vector<PairBlock> blocks;
  for (HeadRange group : every_key ? std::vector<HeadRange>{{0, H}} : head_groups(in, plan)) {
    const bool all_keys = every_key || J == 0 || reads_all_keys(plan, group, H);
    const std::vector<Interval> seen =
        all_keys ? std::vector<Interval>(static_cast<std::size_t>(I), Interval{0, J}) : seen_keys(in, plan, group);
    const std::int64_t step = all_keys ? 1 : step_of_classes(in, plan, group),
                       most = queries > 0 ? queries : queries_of_block(in, group, seen, step);
    for (std::int64_t start = 0; start < std::min(step, I); ++start)
      for (std::int64_t first = start; first < I; first += most * step) {
        const Indices rows{first, std::min(most, (I - first + step - 1) / step), step};
        Interval keys{J, 0};
        for (std::int64_t n = 0; n < rows.count; ++n)
          if (const Interval& own = seen[static_cast<std::size_t>(first + n * step)]; !own.empty())
            keys = keys.joined(own);
        const std::int64_t key = first_of_class(keys.first, in.query_offset + first, step);
        if (all_keys)
          blocks.push_back({group, rows, {0, J}});
        else if (key >= keys.end)  // no query sees a key
          blocks.push_back({group, rows, {0, 1}});
        else
          blocks.push_back({group, rows, {key, (keys.end - 1 - key) / step + 1, step}, step > 1});
      }
  }
  return blocks;
}

}  // namespace fovea
