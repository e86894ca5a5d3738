/// The methods of an attention of several heads, each of which acts on all heads or on some of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "attention/method.h"

namespace fovea {

/// A method and the heads first_head ≤ h < first_head + heads that it acts on.
struct PlacedMethod {
  std::unique_ptr<LocalnessMethod> method;
  std::string name;  ///< prefix of the method's parameter names
  int first_head, heads;

  HeadRange range() const { return {first_head, heads}; }
};
using PlacedMethods = std::vector<PlacedMethod>;

/// The properties of an attention with values of this width, all heads together, after the change() of all methods.
Surroundings surroundings_of(const PlacedMethods& methods, std::int64_t value_dim);

/// x [B, H, T, D], queries or keys, after the positioned() of all methods. x may have fewer heads, those of shared
/// keys, if every method with positioned() acts on all H heads.
Variable positioned(const PlacedMethods& methods, Variable x, const TokenPositions& at, std::int64_t H);

/// The terms of all methods, and the mask AttentionContext::allowed.
Plan plan_of(const PlacedMethods& methods, const AttentionContext& in);

/// The outputs of the heads side by side, [B, I, H D_v]: attend(), then the finish() of all methods and the activation.
/// Adds the plan to SeenPairs::current().
Variable outputs_of_heads(const PlacedMethods& methods, const Surroundings& surroundings, const AttentionContext& in,
                          Plan plan, double dropout, AttentionTrace* trace);

}  // namespace fovea
