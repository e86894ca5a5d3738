/// The interface of localness methods, for their authors. A method is a module that adds terms to the equation of
/// attention (plan.h has the equation). Its class also has `static constexpr MethodCard card`, a struct Options,
/// `static void visit(OptionVisitor&, Options&)` and a constructor from (const MethodShape&, const Options&);
/// registry.h makes its entry in the catalogue from these.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "attention/plan.h"
#include "autograd/operations.h"

namespace fovea {

/// The shape and place that a method is constructed with. A method acts on a whole attention or on some of its heads.
struct MethodShape {
  std::int64_t model_dim;  ///< d
  std::int64_t head_dim;   ///< D, unless chosen otherwise d / all_heads
  int all_heads;           ///< number of heads of the attention
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
  virtual Variable positioned(const Variable& heads, [[maybe_unused]] const TokenPositions& at) { return heads; }
  /// Changes the outputs of this method's heads, [B, h, I, D_v], before the activation and W^O. Called if change() sets
  /// Surroundings::finished.
  virtual Variable finish(const Variable& heads, [[maybe_unused]] const AttentionContext& in) { return heads; }
  /// Adds this method's terms for one call to `plan`. `in` is the context of the heads that the method acts on. Throws
  /// Error for inputs for which the method is not defined.
  virtual void add_terms(const AttentionContext& in, Plan& plan) = 0;
};

/// A visitor of a method's options. One visitor sets the options from the text of a specification, another one
/// describes them for the catalogue. A method lists its options once, in its visit(), which serves both.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  /// A real number in lowest ≤ value ≤ highest. `meaning` is one line of help text.
  virtual void number(const char* name, double& value, double lowest, double highest, const char* meaning) = 0;
  /// A whole number in lowest ≤ value ≤ highest.
  virtual void integer(const char* name, std::int64_t& value, std::int64_t lowest, std::int64_t highest,
                       const char* meaning) = 0;
  /// true or false.
  virtual void flag(const char* name, bool& value, const char* meaning) = 0;
  /// One of several words. `value` is the index of the chosen word in `choices`.
  virtual void choice(const char* name, int& value, const std::vector<std::string>& choices, const char* meaning) = 0;

  /// The same for an enum whose enumerators 0, 1, ... are in the order of `choices`.
  template <class Enum>
  void choice(const char* name, Enum& value, const std::vector<std::string>& choices, const char* meaning) {
    int position = static_cast<int>(value);
    choice(name, position, choices, meaning);
    value = static_cast<Enum>(position);
  }
};

/// A method's entry in the catalogue: `static constexpr MethodCard card` in its class.
struct MethodCard {
  const char* name;       ///< the name in specifications
  const char* summary;    ///< what the method does, in one line of at most about 80 characters
  const char* reference;  ///< paper and equations
  const char* formula;  ///< the equation in plain text, one or more lines; parameters have the names that they have in
                        ///< a checkpoint
  /// The optional inputs of a call that the method reads, "step_input, previous_focus", and the option with which it
  /// does, "pointers=given"; "": always.
  const char *reads = "", *reads_with = "";
};

}  // namespace fovea
