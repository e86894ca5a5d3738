#include "attention/plan.h"

#include <algorithm>
#include <limits>

#include "autograd/operations.h"

namespace fovea {

std::vector<Capture> Score::captures() const {
  std::vector<Capture> all;
  if (form == Form::none) return all;
  all.push_back({Per::query_vector, queries});
  if (form != Form::location) all.push_back({Per::key_vector, keys});
  if (weight.defined()) all.push_back({Per::whole, weight});
  return all;
}

Score default_score(const AttentionContext& in, HeadRange heads) {
  return {.queries = slice_heads(in.query, heads),
          .keys = slice_heads(in.key, heads),
          .scale = in.scale(),
          .heads = heads,
          .is_default = true};
}

std::vector<Score> scores_of_all_heads(const Plan& plan, const AttentionContext& in) {
  const std::int64_t H = in.query.size(1);
  std::vector<Score> given = plan.scores, all;
  for (Score& score : given) score.heads = resolved(score.heads, H);
  std::sort(given.begin(), given.end(), [](const Score& a, const Score& b) { return a.heads.first < b.heads.first; });
  std::int64_t next = 0;
  auto fill_up_to = [&](std::int64_t end) {
    if (next < end) all.push_back(default_score(in, {next, end - next}));
  };
  for (Score& score : given) {
    const HeadRange heads = score.heads;
    require(heads.first >= next,
            "attention: two methods set the score of one head; a head can have one of dot, scaled_dot, general, "
            "additive, ...");
    require(heads.first + heads.count <= H, "attention: a score acts on heads {} to {}, but there are {} heads",
            heads.first + 1, heads.first + heads.count, H);
    fill_up_to(heads.first);
    next = heads.first + heads.count;
    all.push_back(std::move(score));
  }
  fill_up_to(H);
  return all;
}

std::vector<Variable> variables_of(const AttentionContext& in, const Plan& plan) {
  std::vector<Variable> all{in.value};
  auto add = [&](const std::vector<Capture>& captures) {
    for (const Capture& capture : captures) all.push_back(capture.value);
  };
  for (const Score& score : scores_of_all_heads(plan, in)) add(score.captures());
  for (const auto* terms : {&plan.score_changes, &plan.biases, &plan.windows})
    for (const PairTerm& term : *terms) add(term.captures);
  for (const RelativeValues& term : plan.values) add(term.captures);
  for (const Normalizer& part : plan.normalizers) add(part.captures);
  for (const HeadMixing& part : plan.mixings) all.insert(all.end(), {part.before, part.after});
  for (const SecondMap& part : plan.second_maps) {
    add(part.score.captures());
    all.push_back(part.factor.value);
  }
  for (const ExtraKeys& part : plan.extra_keys) all.insert(all.end(), {part.keys, part.values});
  for (const HeadMixer& part : plan.mixers) add(part.captures);
  if (plan.focus) all.insert(all.end(), {plan.focus->gate, plan.focus->previous});
  all.push_back(plan.sink);
  std::erase_if(all, [](const Variable& x) { return !x.defined(); });
  return all;
}

namespace {

/// The sinks of all heads, [H]: `already` (−inf: no sink; undefined: no head has one) with `sink` [h] for `heads` put
/// in.
Variable sink_of_all_heads(const Variable& already, const Variable& sink, HeadRange heads, std::int64_t H) {
  Variable others = already;
  if (!others.defined())
    others = Tensor::full({H}, -std::numeric_limits<double>::infinity(), sink.dtype(), sink.device());
  return reshape(replace_heads(reshape(others, {H, 1, 1}), reshape(sink, {heads.count, 1, 1}), heads), {H});
}

/// Whether the two ranges have a head in common.
bool meet(HeadRange a, HeadRange b) { return a.first < b.first + b.count && b.first < a.first + a.count; }

/// Throws Error if two of these parts act on one head. `what` names the kind of part in the message.
template <class Part>
void require_apart(const char* what, const std::vector<Part>& parts) {
  for (std::size_t k = 0; k < parts.size(); ++k)
    for (std::size_t other = 0; other < k; ++other) {
      const HeadRange a = parts[k].heads, b = parts[other].heads;
      require(!meet(a, b), "attention: two methods each set the {} of head {}; a head can have one", what,
              std::max(a.first, b.first) + 1);
    }
}

/// Throws Error if another part of the plan acts on the heads of a mixer, because that part would have no effect.
void require_mixers_alone(const Plan& plan) {
  for (const HeadMixer& mixer : plan.mixers) {
    auto check = [&](const auto& parts) {
      for (const auto& part : parts)
        require(!meet(mixer.heads, part.heads),
                "attention: a method without query-key pairs, such as linear, cannot be combined with other terms on a "
                "head; another method changes head {}",
                std::max(mixer.heads.first, part.heads.first) + 1);
    };
    check(plan.scores), check(plan.score_changes), check(plan.biases), check(plan.windows), check(plan.values);
    check(plan.ranges), check(plan.always), check(plan.masks), check(plan.normalizers), check(plan.mixings);
    check(plan.dilations);
    check(plan.second_maps), check(plan.extra_keys);
    require(!plan.focus || !meet(mixer.heads, plan.focus->heads),
            "attention: a method without query-key pairs, such as linear, and flexible cannot act on the same head");
  }
}

}  // namespace

void add_to_plan(Plan& all, Plan own, const AttentionContext& in, HeadRange heads) {
  const std::int64_t H = in.query.size(1);
  // a part without a head range acts on all heads of the method
  auto placed = [&](HeadRange part) {
    part = resolved(part, heads.count);
    require(part.first >= 0 && part.count <= heads.count - part.first,
            "attention: a method's plan has a part for {} heads from head {} on; the method has heads 1 to {}",
            part.count, part.first + 1, heads.count);
    return HeadRange{heads.first + part.first, part.count};
  };
  auto add = [&](auto& to, auto& from) {
    for (auto& part : from) {
      part.heads = placed(part.heads);
      to.push_back(std::move(part));
    }
  };
  add(all.scores, own.scores);
  add(all.score_changes, own.score_changes);
  add(all.biases, own.biases);
  add(all.windows, own.windows);
  add(all.values, own.values);
  add(all.ranges, own.ranges);
  add(all.dilations, own.dilations);
  add(all.always, own.always);
  add(all.masks, own.masks);
  add(all.normalizers, own.normalizers);
  add(all.mixings, own.mixings);
  add(all.second_maps, own.second_maps);
  add(all.extra_keys, own.extra_keys);
  add(all.mixers, own.mixers);
  add(all.quantities, own.quantities);
  require_apart("normaliser", all.normalizers);
  require_apart("second map", all.second_maps);
  require_apart("extra keys", all.extra_keys);
  require_apart("mixer", all.mixers);
  if (!own.scores.empty()) scores_of_all_heads(all, in);  // throws Error if two scores act on one head
  if (own.focus) {
    require(!all.focus, "attention: two methods each carry a focus, as flexible does; an attention can have one");
    all.focus = std::move(own.focus);
    all.focus->heads = placed(all.focus->heads);
  }
  require_mixers_alone(all);
  if (own.sink.defined()) {
    for (HeadRange others : all.sink_heads)
      require(!meet(others, heads), "sinks: two methods give one head a sink logit each; a head can have one");
    require(own.sink.shape() == Shape{heads.count},
            "attention: a method's sink is {}; it must be [{}], one logit per head", own.sink, heads.count);
    all.sink_heads.push_back(heads);
    all.sink = sink_of_all_heads(all.sink, own.sink, heads, H);
  }
}

}  // namespace fovea
