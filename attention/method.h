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

/// Linear layers of the methods' own that read the same states as the attention's query, key and value projections.
/// Multi-head attention computes all layers of one tensor of states in a single matrix product.
struct StateLayers {
  std::vector<const Linear*> of_query;  ///< applied to query_states
  std::vector<const Linear*> of_key;    ///< applied to key_states
};

/// Properties of an attention that lie outside of the equation in plan.h. A method may change them when the attention
/// is constructed.
struct Surroundings {
  std::int64_t value_dim;  ///< width of all heads' values: W^V [d, value_dim], W^O [value_dim, d]
  Variable (*activation)(const Variable& heads) =
      nullptr;                 ///< applied to the concatenated heads, before W^O; null: none
  std::int64_t key_heads = 0;  ///< number of heads of keys and values, a divisor of the number of query heads; 0: equal
  bool finished = false;       ///< whether the methods' LocalnessMethod::finish() is called
  bool positioned = false;     ///< whether the methods' LocalnessMethod::positioned() is called
};

class LocalnessMethod : public Module {
 public:
  /// Changes properties of the attention that this method belongs to.
  virtual void change(Surroundings&) const {}
  /// Whether this method allows Attention::has_independent_queries(): true if none of its terms reads the query's
  /// position or a state carried from query to query.
  virtual bool has_independent_queries() const { return false; }
  /// Lists the layers that add_terms() applies with AttentionContext::project(). Optional: listed layers share one
  /// matrix product with the attention's own projections, which is faster.
  virtual void add_layers(StateLayers&) const {}
  /// Encodes positions in queries or keys, as rotary positions do, before any method adds its terms. Called once for
  /// the queries and once for the keys, and likewise for a second map (SecondMap). `heads` [B, h, T, D] are the queries
  /// or keys of T consecutive tokens at the positions `at`; the result has the same shape. All heads must be treated
  /// alike, because several query heads may share one head of keys (Surroundings::key_heads). Called only if change()
  /// sets Surroundings::positioned.
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
  /// Adds this method's terms for one call to `plan`. `in` is the context of the heads that the method acts on. Throws
  /// Error for inputs for which the method is not defined.
  virtual void add_terms(const AttentionContext& in, Plan& plan) = 0;
};

}  // namespace fovea
