#include "attention/layers/placed_methods.h"

namespace fovea {

namespace {

/// change(x) on `heads` of x [B, H, T, D]; the other heads are not changed.
template <class Change>
Variable changed_heads(const Variable& x, HeadRange heads, const Change& change) {
  const Variable own = slice_heads(x, heads), changed = change(own);
  return changed.is_same(own) ? x : replace_heads(x, changed, heads);
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
  for (const PlacedMethod& placed : methods) {
    Plan own;
    placed.method->add_terms(context_of_heads(in, placed.range()), own);
    add_to_plan(plan, std::move(own), in, placed.range());
  }
  if (in.allowed.defined()) plan.masks.push_back({in.allowed});
  return plan;
}

Variable finished(const PlacedMethods& methods, Variable x, const AttentionContext& in) {
  for (const PlacedMethod& placed : methods) {
    if (placed.heads == x.size(1))
      x = placed.method->finish(x, in);
    else
      x = changed_heads(x, placed.range(), [&](const Variable& heads) {
        return placed.method->finish(heads, context_of_heads(in, placed.range()));
      });
  }
  return x;
}

}  // namespace fovea
