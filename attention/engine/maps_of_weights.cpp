#include "attention/engine/maps_of_weights.h"

#include <utility>

#include "attention/engine/blocks.h"
#include "attention/engine/lowered.h"

namespace fovea {

namespace {

MapOfWeights first_map(const AttentionContext& in, const Plan& plan, const AttentionDropout& dropout) {
  auto first = std::make_shared<Plan>(plan);
  first->second_maps.clear();
  return {in, std::move(first), dropout};
}

MapOfWeights second_map(const AttentionContext& in, const Plan& plan, const AttentionDropout& dropout,
                        const SecondMap& part) {
  const std::int64_t H = in.query.size(1);
  const HeadRange heads = resolved(part.heads, H);
  Plan second = plan;
  second.second_maps.clear();
  second.scores = {part.score};
  second.scores[0].heads = heads;
  return {context_of_heads(in, heads), std::make_shared<const Plan>(plan_of_heads(std::move(second), heads, H)),
          dropout_of_heads(dropout, in, heads)};
}

}  // namespace

std::vector<MapOfWeights> maps_of_weights(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                          const AttentionDropout& dropout) {
  if (plan->second_maps.empty()) return {{in, plan, dropout}};
  std::vector<MapOfWeights> maps{first_map(in, *plan, dropout)};
  for (const SecondMap& part : plan->second_maps) maps.push_back(second_map(in, *plan, dropout, part));
  return maps;
}

const char* obstacle_of_maps(const Plan& plan, bool traces_rows) {
  if (plan.second_maps.empty()) return nullptr;
  for (const PairTerm& window : plan.windows) {
    if (std::holds_alternative<Renormalization>(window.what)) return "a second map whose weights are normalised again";
    const auto* formula = std::get_if<PointwiseFormula>(&window.what);  // each map has its own weights
    if (formula && !is_linear_in(formula->value(), 0))
      return "a second map beside a change of weights that is no factor";
  }
  return traces_rows ? "a trace of row quantities of a second map" : nullptr;
}

AttentionDropout dropout_of_heads(AttentionDropout dropout, const AttentionContext& in, HeadRange heads) {
  const std::int64_t I = in.query.size(2);
  if (dropout.all_rows == 0) dropout.all_rows = in.query.size(1) * I;
  dropout.first_row += heads.first * I, dropout.rows = heads.count * I;
  return dropout;
}

}  // namespace fovea
