#include "attention/layers/placed_methods.h"

#include "attention/engine/attend.h"
#include "attention/layers/unseen_rows.h"

namespace fovea {

namespace {

/// change(x) on `heads` of x [B, H, T, D]; the other heads are not changed.
template <class Change>
Variable changed_heads(const Variable& x, HeadRange heads, const Change& change) {
  if (heads.count == x.size(1)) return change(x);
  const Variable own = slice_heads(x, heads), changed = change(own);
  return changed.is_same(own) ? x : replace_heads(x, changed, heads);
}

/// The error of a plan that cannot have the terms of the method at index `at` beside those of the methods before it.
Error refusal(const PlacedMethods& methods, std::size_t at, const Error& reason) {
  std::string before;
  for (std::size_t k = 0; k < at; ++k) before += (k > 0 ? ", " : "") + methods[k].name;
  return Error(fmt::format("{} beside {}: {}", methods[at].name, before, reason.what()));
}

}  // namespace

Surroundings surroundings_of(const PlacedMethods& methods, std::int64_t value_dim) {
  Surroundings surroundings{.value_dim = value_dim};
  for (const PlacedMethod& placed : methods) placed.method->change(surroundings);
  return surroundings;
}

Variable positioned(const PlacedMethods& methods, Variable x, const TokenPositions& at, std::int64_t H) {
  for (const PlacedMethod& placed : methods) {
    const auto change = [&](const Variable& heads) { return placed.method->positioned(heads, at); };
    if (placed.heads == H)
      x = change(x);
    else if (x.size(1) == H)
      x = changed_heads(x, placed.range(), change);
  }
  return x;
}

Plan plan_of(const PlacedMethods& methods, const AttentionContext& in) {
  Plan plan;
  for (std::size_t k = 0; k < methods.size(); ++k) {
    const HeadRange heads = methods[k].range();
    Plan own;
    methods[k].method->add_terms(context_of_heads(in, heads), own);
    try {
      add_to_plan(plan, std::move(own), in, heads);
    } catch (const Error& error) {
      if (k == 0) throw;
      throw refusal(methods, k, error);
    }
  }
  if (in.allowed.defined()) plan.masks.push_back({in.allowed});
  return plan;
}

Variable outputs_of_heads(const PlacedMethods& methods, const Surroundings& surroundings, const AttentionContext& in,
                          Plan plan, double dropout, AttentionTrace* trace) {
  SeenPairs::current()->add(in, plan);
  Variable x = attend(in, std::move(plan), dropout, trace);  // [B, H, I, D_v]
  if (surroundings.finished)
    for (const PlacedMethod& placed : methods)
      x = changed_heads(x, placed.range(), [&](const Variable& heads) {
        return placed.method->finish(heads, context_of_heads(in, placed.range()));
      });
  const Variable heads = merge_heads(x);
  return surroundings.activation ? surroundings.activation(heads) : heads;
}

}  // namespace fovea
