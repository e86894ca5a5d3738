/// The interface of localness methods. A method is a module that adds terms to the equation of attention (plan.h has
/// the equation).
#pragma once
#include <cstdint>
#include <vector>

#include "attention/plan.h"
#include "autograd/operations.h"

namespace fovea {

/// The shape and place that a method is constructed with. A method acts on a whole attention or on some of its heads.
struct MethodShape {
  std::int64_t model_dim;  ///< d
  std::int64_t head_dim;   ///< D = d / number of all heads
  int heads;               ///< number of heads this method acts on
  int layer;               ///< number of this layer, counted from 0
  Place place;

  /// Widths of one head's queries, keys and values. In multi-head attention they are D, unless a method changes the
  /// width of the values.
  std::int64_t query_dim, key_dim, value_dim;
  std::int64_t step_dim;       ///< width of AttentionContext::step_input; 0: there is none
  std::int64_t key_state_dim;  ///< width of AttentionContext::key_states; query states have width d
};

/// Linear layers of methods that are applied to the states, besides the projections to queries, keys and values. All
/// layers of the same states are computed in one product.
struct StateLayers {
  std::vector<const Linear*> of_query;  ///< applied to query_states
  std::vector<const Linear*> of_key;    ///< applied to key_states
};

/// Properties of the multi-head attention around a method which the method may change when the attention is
/// constructed.
struct Surroundings {
  std::int64_t value_dim;  ///< width of all heads' values: W^V [d, value_dim], W^O [value_dim, d]
  Variable (*activation)(const Variable& heads) =
      nullptr;                 ///< applied to the concatenated heads, before W^O; null: none
  std::int64_t key_heads = 0;  ///< heads of keys and values, which divide those of the queries; 0: as many
  bool finished = false;       ///< whether the heads' outputs go through LocalnessMethod::finish()
  bool positioned = false;     ///< whether queries and keys go through LocalnessMethod::positioned()
};

class LocalnessMethod : public Module {
 public:
  /// Changes properties of the attention around this method.
  virtual void change(Surroundings&) const {}
  /// Attention::has_independent_queries() for an attention with this method: true if no term reads positions or carried
  /// numbers.
  virtual bool has_independent_queries() const { return false; }
  /// Lists the layers that add_terms() passes to AttentionContext::project(). Optional; it saves time.
  virtual void add_layers(StateLayers&) const {}
  /// Replaces queries, and keys, before any method adds its terms; also those of second maps. heads [B, h, T, D], of
  /// tokens at these positions; all heads alike, since several may share one head of keys (key_heads). Called if
  /// change() sets Surroundings::positioned.
  virtual Variable positioned(const Variable& heads, const TokenPositions& at) {
    (void)at;
    return heads;
  }
  /// Changes the outputs of this method's heads, [B, h, I, D_v], before the activation and W^O. Called if change() sets
  /// Surroundings::finished.
  virtual Variable finish(const Variable& heads, const AttentionContext& in) {
    (void)in;
    return heads;
  }
  /// Adds what this method contributes to one call to `plan`. Throws Error for inputs for which the method is not
  /// defined.
  virtual void add_terms(const AttentionContext& in, Plan& plan) = 0;
};

}  // namespace fovea
