/// A plan with second maps of weights as several plans without: the output is linear in the weights, unless they are
/// normalised again, and so each map is attention of its own.
#pragma once
#include "attention/engine/attend.h"

namespace fovea {

struct MapOfWeights {
  AttentionContext in;
  std::shared_ptr<const Plan> plan;
  AttentionDropout dropout;
};

/// The first map of all heads, then one for each of plan.second_maps, of its heads alone and without its factor.
std::vector<MapOfWeights> maps_of_weights(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                          const AttentionDropout& dropout);

/// Why the maps of a plan cannot be computed one after the other, a string literal; null: they can, or there is only
/// one.
const char* obstacle_of_maps(const Plan& plan, bool traces_rows);

/// The dropout of some heads of a call with the context `in`.
AttentionDropout dropout_of_heads(AttentionDropout dropout, const AttentionContext& in, HeadRange heads);

}  // namespace fovea
