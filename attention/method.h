/// What a localness method is: a module that looks at an attention's inputs and returns the terms it adds.
///
/// For query i, key j, per head (DESIGN of the library in one formula):
///
///   s_ij = f(score(q_i, k_j))            score: q_i · k_j / sqrt(D), or another; score terms f, before all biases
///   z_ij = s_ij + Σ bias_t(i, j)         bias terms
///   a_ij = softmax_j(z_ij)               over the keys that i may see: ranges and masks; densities are exp(z_ij)
///   w_ij = a_ij · Π m_t(i, j)            window terms: after the softmax, not renormalised
///   o_i  = Σ_j w_ij v_j + Σ r_t(w_i)     value terms
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/pointwise_strips.h"
#include "autograd/operations.h"
#include "nn/attention.h"
#include "tensor/random.h"

namespace fovea {

/// What a method is made for: a whole attention, or some of its heads.
struct MethodShape {
  std::int64_t model_dim;  ///< d
  std::int64_t head_dim;   ///< D = d / all heads
  int heads;               ///< the heads this method acts on
  int layer;               ///< 0-based
  Place place;

  /// Widths of one head's queries and keys, and of its values: D in multi-head attention, unless a method changes the
  /// values.
  std::int64_t query_dim, key_dim, value_dim;
  std::int64_t step_dim;       ///< of AttentionContext::step_input; 0: none
  std::int64_t key_state_dim;  ///< of AttentionContext::key_states; the query states are model_dim wide
};

/// The keys that a query sees, as an interval: first ≤ j < end. i64, broadcast to [B, H, I].
struct KeyRange {
  Tensor first, end;
};

class Linear;

/// Layers of methods that make more of the states that queries, keys and values are projected from.
struct StateLayers {
  std::vector<const Linear*> of_query, of_key;
};

/// What a method sees. B sentences, H heads, I queries, J keys, D head dim.
struct AttentionContext {
  Variable query_states;  ///< input of the sub-layer, [B, I, d]
  /// The same of the keys that came with this call, [B, J, d]: all, but where a memory has those of earlier calls.
  Variable key_states;
  /// All heads side by side, with bias, before 1 / sqrt(D): [B, I, d], [B, J, d]
  Variable projected_query, projected_key;
  /// Split in heads: [B, H, I, D], [B, H, J, D], [B, H, J, D]; in attention without projections one head, of the
  /// inputs' widths
  Variable query, key, value;
  Variable mask;     ///< the caller's M of mask attention [B or 1, H or 1, I or 1, J], or undefined
  KeyRange visible;  ///< by lengths and causality
  bool causal = false;
  std::int64_t query_offset = 0;  ///< position of the first query
  Place place = Place::encoder;

  Variable length;           ///< keys that a query may see, true lengths, prefixes if causal: [B, 1, 1 or I]
  Variable query_positions;  ///< 0-based, in tokens, [I]
  Variable key_positions;    ///< [J]

  Variable step_input;      ///< what a decoder reads at each step, [B, I, d_e], or undefined
  Variable previous_focus;  ///< before the first query, [B, H or 1], or undefined
  DecoderMemory* memory = nullptr;
  /// What came of this call's states in one product: of the layers that make queries, keys and values, and of
  /// LocalnessMethod::add_layers(). Null: nothing.
  std::shared_ptr<const std::map<const Linear*, Variable>> made;
  std::shared_ptr<const AttentionContext> whole;  ///< of all heads, where this is of some of them; null: this is it

  double scale() const;  ///< 1 / sqrt(D)
  /// layer(states): as `made` has it, or made now.
  Variable project(const Linear& layer, const Variable& states) const;
  /// What `make` makes of the keys that came with this call, [B, J, ...], for all keys: methods that project keys of
  /// their own do it through here, and a decoder that goes step by step projects each key once. `owner`: who makes it.
  template <class Make>
  Variable all_keys(const void* owner, Make&& make) const {
    return fovea::all_keys(memory, causal, owner, make);
  }
  /// The last of `key`, those that came with this call: [B, H, J, D].
  Variable newest_key() const;
  /// The largest |j − i|.
  std::int64_t farthest() const { return std::max({query_offset + query.size(2), key.size(2), std::int64_t{1}}) - 1; }
  /// `visible` as a matrix, for the composed form: bool [B or 1, H or 1, I or 1, J]; undefined: every query sees every
  /// key.
  Tensor allow() const;
};

/// The same for any ranges over J keys.
Tensor allowed_pairs(const KeyRange& range, std::int64_t J);

// ---- Captures: what a pointwise functor reads beside z and the position. spread(): as a matrix of pairs, for the
// composed form; strips(): row by row, for the fused engine.

struct PerQuery {
  Variable value;  ///< [B, H, I], broadcast
  Variable spread(const AttentionContext&) const { return unsqueeze(value, -1); }
  QueryStrips strips(const StripShape& s) const {
    return {fitting("PerQuery", value.value(), {s.sentences, s.heads, s.queries})};
  }
};
struct PerKey {
  Variable value;  ///< [B, H, J], broadcast
  Variable spread(const AttentionContext&) const { return unsqueeze(value, -2); }
  KeyStrips strips(const StripShape& s) const {
    return {rows_of_keys(fitting("PerKey", value.value(), {s.sentences, s.heads, s.keys}), s.keys)};
  }
};
struct PerHead {
  Variable value;  ///< [H]
  Variable spread(const AttentionContext&) const { return reshape(value, {value.size(0), 1, 1}); }
  HeadStrips strips(const StripShape& s) const {
    return {fitting("PerHead", value.value().unsqueeze(-1), {1, s.heads, 1})};
  }
};
struct PerPair {
  Variable value;  ///< [B, H, I, J], broadcast
  Variable spread(const AttentionContext&) const { return value; }
  PairStrips strips(const StripShape& s) const {
    return {rows_of_keys(fitting("PerPair", value.value(), {s.sentences, s.heads, s.queries, s.keys}), s.keys)};
  }
};
/// A table over the relative position, read at clip(j − i, −clip, clip) + clip.
struct PerOffset {
  Variable value;  ///< [..., 2 clip + 1]; [B, H, I, 2 clip + 1] where every query has its own table
  std::int64_t clip;
  Variable spread(const AttentionContext& in) const;
  OffsetStrips strips(const StripShape& s) const {
    Tensor table = fitting("PerOffset", value.value(), {s.sentences, s.heads, s.queries, 2 * clip + 1});
    return {with_unit_rows(table), clip};
  }
};
/// [I, J] i64: clip(j − i, −clip, clip) + clip, for positions of this context.
Tensor offset_index(const AttentionContext& in, std::int64_t clip);

// ---- Terms

/// Changes a [B, H, I, J] matrix (or [D, B, H, I, J]): logits before the softmax, or weights after it.
class PairTerm {
 public:
  virtual ~PairTerm() = default;
  /// The plain form, on whole matrices: the documentation of the term, and the oracle of every faster one.
  virtual Variable composed(const Variable& pairs, const AttentionContext& in) const = 0;
  /// The term for the fused engine; null: there is only the composed form.
  virtual std::unique_ptr<StripTerm> strips(const AttentionContext&) const { return nullptr; }
  /// Whether it is mostly products of queries and keys of its own, at which no engine is better than the other.
  virtual bool is_products() const { return false; }
};

/// Changes the output: what a method adds to Σ_j w_ij v_j.
class ValueTerm {
 public:
  virtual ~ValueTerm() = default;
  /// weights as weighted_sum() has them → [B, H, I, D]
  virtual Variable composed(const Variable& weights, const AttentionContext& in) const = 0;
  virtual std::unique_ptr<StripValueTerm> strips(const AttentionContext&) const { return nullptr; }
};

struct Terms;
class StripScore;
class StripRecurrence;

/// Makes the logits of a query and a key: what takes the place of q · k / sqrt(D).
class Score {
 public:
  virtual ~Score() = default;
  /// → [B, H, I, J], or one matrix for each dimension of the values, [D, B, H, I, J]
  virtual Variable composed(const AttentionContext& in) const = 0;
  /// It is q · k / sqrt(D) after all, which every engine has.
  virtual bool is_scaled_dot() const { return false; }
  /// For the fused engine, of every head one; empty: there is only the composed form. What composed() and the strips
  /// read are the same variables.
  virtual std::vector<std::unique_ptr<StripScore>> strips(const AttentionContext&) const;
};

/// Takes the place of the softmax where a query's logits depend on the weights of the query before it: goes through the
/// queries in order.
class Recurrence {
 public:
  virtual ~Recurrence() = default;
  /// logits [B, H, I, J] after all biases → weights; allow as allowed_keys() makes it.
  virtual Variable composed(const Variable& logits, const Tensor& allow, const AttentionContext& in) = 0;
  /// The output [B, H, I, D] from the keys that weigh something alone, without the logits of the others; undefined
  /// where that is not possible.
  virtual Variable skipping(const AttentionContext&, const Terms&, AttentionTrace*) { return {}; }
  /// For the fused engine; null: there is only the composed form.
  virtual std::unique_ptr<StripRecurrence> strips(const AttentionContext&);
  /// What goes from query to query, [B, H, I]: of the last composed(), or what was given from strips().
  virtual Variable carried() const { return {}; }
  virtual void set_carried(const Variable&) {}
  /// Leaves to the next step of a decoder what was carried out of the last query; carried: [B, H, I].
  virtual void keep_carried(DecoderMemory&, const Variable& /*carried*/) const {}
};

struct Terms {
  std::unique_ptr<Score> score;  ///< null: q · k / sqrt(D)
  Tensor densities;              ///< heads whose weights are exp(z), not a softmax: bool [H, 1, 1]; undefined: none
  std::unique_ptr<Recurrence> recurrence;

  /// Hard windows: a query sees the keys that are in every one of these, and in `in.visible`. Broadcast to [B, H, I].
  std::vector<KeyRange> ranges;
  std::vector<KeyRange> always;  ///< seen whatever `ranges` says, where `in.visible` has them
  /// What is hard and no interval: bool [B or 1, H or 1, I or 1, J], false where a key is not seen.
  std::vector<Tensor> masks;
  Variable sink;  ///< logits [H] that take mass from the softmax and have no value; −inf: none; undefined: none at all

  std::vector<std::unique_ptr<PairTerm>> scores;   ///< applied to the score, in order, before every bias
  std::vector<std::unique_ptr<PairTerm>> biases;   ///< applied to the logits, in order
  std::vector<std::unique_ptr<PairTerm>> windows;  ///< applied to the weights, in order
  std::vector<std::unique_ptr<ValueTerm>> values;
  /// For pictures: "center" [B, H, I], ...; computed when somebody looks.
  std::vector<std::pair<std::string, std::function<Variable()>>> quantities;

  void quantity(std::string name, std::function<Variable()> compute) {
    quantities.emplace_back(std::move(name), std::move(compute));
  }
  void quantity(std::string name, const Variable& value) {
    quantity(std::move(name), [value] { return value; });
  }
  /// Throws where another method has set the score already.
  void set_score(std::unique_ptr<Score> made);
  void set_recurrence(std::unique_ptr<Recurrence> made);
};

/// f(z, position, captures...) as an element-wise functor of (z, query position, key position, captures...).
template <class F>
struct Pointwise {
  static constexpr const char* name = F::name;
  F f;
  template <class T, class... Captures>
  FOVEA_HD FOVEA_INLINE T operator()(T z, T query, T key, Captures... captures) const {
    return f(z, Position<T>{query, key}, captures...);
  }
};

/// A functor on one (i, j) with its captures: what the author writes is the equation, derivatives come from duals.
template <class F, class... Captures>
class PointwiseTerm : public PairTerm {
 public:
  PointwiseTerm(const F& f, Captures... captures) : f_(f), captures_(std::move(captures)...) {}

  Variable composed(const Variable& pairs, const AttentionContext& in) const override {
    return std::apply(
        [&](const Captures&... captures) {
          return map(Pointwise<F>{f_}, pairs, unsqueeze(in.query_positions, 1), in.key_positions,
                     captures.spread(in)...);
        },
        captures_);
  }

  std::unique_ptr<StripTerm> strips(const AttentionContext& in) const override {
    return std::apply(
        [&](const Captures&... captures) -> std::unique_ptr<StripTerm> {
          StripShape shape{in.query.size(0), in.query.size(1), in.query.size(2), in.key.size(2), in.query_offset, 1};
          using Strips = PointwiseStrips<F, decltype(captures.strips(shape))...>;
          return std::make_unique<Strips>(f_, std::array<Variable, sizeof...(Captures)>{captures.value...},
                                          captures.strips(shape)...);
        },
        captures_);
  }

 private:
  F f_;
  std::tuple<Captures...> captures_;
};

template <class F, class... Captures>
std::unique_ptr<PairTerm> pointwise(const F& f, Captures... captures) {
  return std::make_unique<PointwiseTerm<F, Captures...>>(f, std::move(captures)...);
}

/// z + b: a bias that a method has as a matrix, or as a table.
struct AddBias {
  static constexpr const char* name = "add_bias";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T bias) const {
    return z + bias;
  }
};

/// w · m: a window after the softmax.
struct MultiplyWindow {
  static constexpr const char* name = "multiply_window";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T w, Position<T>, T window) const {
    return w * window;
  }
};

// ---- Methods

/// What a method may change of the multi-head attention around it, when that is made.
struct Surroundings {
  std::int64_t value_dim;                                   ///< of all heads: W^V [d, value_dim], W^O [value_dim, d]
  Variable (*activation)(const Variable& heads) = nullptr;  ///< of the concatenated heads, before W^O
  bool positioned = false;                                  ///< queries and keys go through positioned()
};

class LocalnessMethod : public Module {
 public:
  virtual void change(Surroundings&) const {}
  /// As Attention::has_independent_queries(): true where no term reads positions, and none what was carried.
  virtual bool has_independent_queries() const { return false; }
  /// Names the layers that add_terms() asks AttentionContext::project() for.
  virtual void add_layers(StateLayers&) const {}
  /// What takes the place of queries and of keys [B, H, T, D], the first of them at position `first`, before any method
  /// adds its terms; asked where change() has said so.
  virtual Variable positioned(const Variable& heads, std::int64_t first) {
    (void)first;
    return heads;
  }
  /// Adds this method's terms for one call to `terms`. Throws Error where the method is not defined.
  virtual void add_terms(const AttentionContext& in, Terms& terms) = 0;
};

/// x [B, T, h · D] → [B, h, T, D], a view.
Variable split_heads(const Variable& x, std::int64_t head_dim);
/// [B, h, T, D] → [B, T, h · D]; a view where the memory order is [B, T, h, D].
Variable merge_heads(const Variable& x);

/// The keys that take part in the softmax, by visibility, ranges and masks: bool, broadcast to [B, H, I, J]; undefined:
/// all.
Tensor allowed_keys(const AttentionContext& in, const Terms& terms);

/// Σ_j w_ij v_j: weights [B, H, I, J], or one matrix for each dimension of the values, [D, B, H, I, J]; values
/// [B, H, J, D] → [B, H, I, D].
Variable weighted_sum(const Variable& weights, const Variable& value);

/// As they are shown: [B, H, I, J], or [D, B, H, I, J] as [B, H, I, J, D].
Variable with_dimensions_last(const Variable& pairs);

/// Throws where a term does not combine with a recurrence.
void check_recurrence(const Terms& terms);

/// Dropout of the attention weights, at a place of the random sequence: both engines draw the same.
struct AttentionDropout {
  double probability = 0;
  RandomPosition at = {};
};

/// softmax(q kᵀ / sqrt(D)) v with the terms of `terms` by plain operations; plain attention for none. Fills `trace` if
/// given. → [B, H, I, D]
Variable attend_composed(const AttentionContext& in, const Terms& terms, const AttentionDropout& dropout,
                         AttentionTrace* trace);

/// What went on in one call: the weights as given, the score's own numbers if they are not q kᵀ / sqrt(D), and what the
/// terms tell.
void fill_trace(const AttentionContext& in, const Terms& terms, const Variable& weights, AttentionTrace& trace);

/// How attend() computes attention.
///   composed: plain differentiable operations on matrices of all pairs; O(I J) memory.
///   fused:    one pass over strips of the pairs; O(I + J) memory. A trace gets constants. attend() throws Error for a
///             method with a term that has no fused form.
///   fastest:  fused where every term has a fused form and there are more than a few keys, composed otherwise.
enum class AttentionEngine { fastest, fused, composed };

/// The engine of the calling thread: that of its innermost AttentionEngineScope, `fastest` outside of all scopes.
AttentionEngine attention_engine();

/// Chooses the engine of the calling thread for the lifetime of this object. Other threads keep theirs.
class AttentionEngineScope {
 public:
  explicit AttentionEngineScope(AttentionEngine engine);
  ~AttentionEngineScope();
  AttentionEngineScope(const AttentionEngineScope&) = delete;
  AttentionEngineScope& operator=(const AttentionEngineScope&) = delete;

 private:
  AttentionEngine before_;
};

/// Attention for one call, computed by attention_engine() → [B, H, I, D_v]. `dropout` is the probability in [0, 1) with
/// which a weight is zeroed. Fills `trace` unless it is null.
Variable attend(const AttentionContext& in, Terms terms, double dropout, AttentionTrace* trace);

}  // namespace fovea
