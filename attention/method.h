/// The interface of localness methods. A method is a module that adds terms to the equations of attention.
///
/// For query i and key j of one head:
///
///   s_ij = f(score(q_i, k_j))            score: q_i · k_j / sqrt(D) or another one; f: score terms, applied before
///   biases z_ij = s_ij + Σ bias_t(i, j)         bias terms a_ij = softmax_j(z_ij)               over the keys that i
///   may see, by ranges and masks; exp(z_ij) for densities w_ij = a_ij · Π m_t(i, j)            window terms, applied
///   after the softmax, without normalising again o_i  = Σ_j w_ij v_j + Σ r_t(w_i)     value terms
///
/// Letters of shapes: B sentences, H heads, I queries, J keys, D width of a head, d model width.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/formula/pointwise.h"
#include "autograd/operations.h"
#include "nn/attention.h"
#include "tensor/random.h"

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

/// The keys that each query sees as an interval, first ≤ j < end. Both i64, broadcast to [B, H, I].
struct KeyRange {
  Tensor first, end;
};

class Linear;

/// Linear layers of methods that are applied to the states, besides the projections to queries, keys and values. All
/// layers of the same states are computed in one product.
struct StateLayers {
  std::vector<const Linear*> of_query;  ///< applied to query_states
  std::vector<const Linear*> of_key;    ///< applied to key_states
};

/// The inputs of one call, for methods and engines.
struct AttentionContext {
  Variable query_states;  ///< input of the sub-layer, [B, I, d]
  /// States of the keys that this call passes, [B, J, d]. Keys of earlier calls, in the decoder's memory, have none
  /// here.
  Variable key_states;
  /// Projected states of all heads, with bias and without the factor 1 / sqrt(D): [B, I, d], [B, J, d]
  Variable projected_query, projected_key;
  /// [B, H, I, D], [B, H, J, D], [B, H, J, D]. In attention without projections there is one head, with the widths of
  /// the inputs.
  Variable query, key, value;
  Variable mask;     ///< AttentionInput::mask, [B or 1, H or 1, I or 1, J], or undefined
  KeyRange visible;  ///< the keys that queries may see by lengths and causality
  bool causal = false;
  std::int64_t query_offset = 0;  ///< position of the first query
  Place place = Place::encoder;

  Variable length;           ///< number of keys that a query may see, without padding, [B or 1, 1, 1 or I]
  Variable query_positions;  ///< in tokens, counted from 0, [I]
  Variable key_positions;    ///< [J]

  Variable step_input;      ///< AttentionInput::step_input, [B, I, d_e], or undefined
  Variable previous_focus;  ///< focus before the first query, [B, H or 1], or undefined
  DecoderMemory* memory = nullptr;
  /// Results of linear layers that were applied to the states in one product: the projections, and those of
  /// LocalnessMethod::add_layers(). Null: none.
  std::shared_ptr<const std::map<const Linear*, Variable>> projected;
  /// The context of all heads, if this is one of some heads; otherwise null.
  std::shared_ptr<const AttentionContext> whole;

  double scale() const;  ///< 1 / sqrt(D)
  /// layer(states), from `projected` if it is there.
  Variable project(const Linear& layer, const Variable& states) const;
  /// fovea::all_keys() for this call. Methods with projections of their own for keys must use it, so that a decoder
  /// projects each key once.
  template <class Make>
  Variable all_keys(const void* owner, Make&& make) const {
    return fovea::all_keys(memory, causal, owner, make);
  }
  /// The keys that this call passes, the last ones of `key`: [B, H, J', D].
  Variable newest_key() const;
  /// The largest distance |j − i| between a query and a key, at least 0.
  std::int64_t farthest() const { return std::max({query_offset + query.size(2), key.size(2), std::int64_t{1}}) - 1; }
  /// allowed_pairs() of `visible`, on the device of the queries.
  Tensor allow() const;
};

/// Whether key j is in the range of query i, for J keys: bool [B or 1, H or 1, I or 1, J]; undefined: every query sees
/// every key.
Tensor allowed_pairs(const KeyRange& range, std::int64_t J);

/// A capture as a matrix that broadcasts to [B, H, I, J], in differentiable operations.
Variable spread(const Capture& capture, const AttentionContext& in);
/// The row of a PerOffset table for each query and key of this context, clip(j − i, −clip, clip) + clip: i64 [I, J].
Tensor offset_index(const AttentionContext& in, std::int64_t clip);

// ---- Terms

class StripTerm;
class StripValueTerm;

/// A change of logits before the softmax or of weights after it, [B, H, I, J] or [D, B, H, I, J].
class PairTerm {
 public:
  virtual ~PairTerm() = default;
  /// The term on whole matrices, in plain operations. This is the term's definition: tests compare all faster forms
  /// with it.
  virtual Variable composed(const Variable& pairs, const AttentionContext& in) const = 0;
  /// The term for the fused engine; null if it has the composed form only.
  virtual std::unique_ptr<StripTerm> strips(const AttentionContext& in) const;
  /// Whether most of its work is products of queries and keys of its own, where neither engine is faster than the
  /// other.
  virtual bool is_products() const { return false; }
};

/// A term that a method adds to the output Σ_j w_ij v_j.
class ValueTerm {
 public:
  virtual ~ValueTerm() = default;
  /// weights as in weighted_sum() → [B, H, I, D]
  virtual Variable composed(const Variable& weights, const AttentionContext& in) const = 0;
  /// The term for the fused engine; null if it has the composed form only.
  virtual std::unique_ptr<StripValueTerm> strips(const AttentionContext& in) const;
};

struct Terms;
class StripScore;
class StripRecurrence;

/// Computes the logit of a query and a key, in place of q · k / sqrt(D).
class Score {
 public:
  virtual ~Score() = default;
  /// → [B, H, I, J], or one matrix per dimension of the values, [D, B, H, I, J]
  virtual Variable composed(const AttentionContext& in) const = 0;
  /// Whether this is q · k / sqrt(D), which every engine computes itself.
  virtual bool is_scaled_dot() const { return false; }
  /// The score for the fused engine, one StripScore per group of heads, such that every head has one; empty if there is
  /// the composed form only. They read the same variables as composed().
  virtual std::vector<std::unique_ptr<StripScore>> strips(const AttentionContext&) const;
};

/// A replacement for the softmax in methods whose logits for one query depend on the weights of the query before. It
/// processes queries in order and carries one number per head from each query to the next, such as flexible attention's
/// focus.
class Recurrence {
 public:
  virtual ~Recurrence() = default;
  /// logits [B, H, I, J] after all biases → weights. `allow` is the result of allowed_keys().
  virtual Variable composed(const Variable& logits, const Tensor& allow, const AttentionContext& in) = 0;
  /// The output [B, H, I, D], computed without the logits of keys whose weight is 0. Undefined if that is not possible;
  /// then composed() is used.
  virtual Variable skipping(const AttentionContext&, const Terms&, AttentionTrace*) { return {}; }
  /// The recurrence for the fused engine; null if there is the composed form only.
  virtual std::unique_ptr<StripRecurrence> strips(const AttentionContext&);
  /// The number carried out of each query, [B, H, I]: that of the last composed(), or the one given to set_carried().
  virtual Variable carried() const { return {}; }
  virtual void set_carried(const Variable&) {}
  /// Stores in the decoder's memory what the last query of this call carries to the next call. `carried` is [B, H, I].
  virtual void keep_carried(DecoderMemory&, const Variable& /*carried*/) const {}
};

/// The terms of all methods for one call.
struct Terms {
  std::unique_ptr<Score> score;  ///< null: q · k / sqrt(D)
  Tensor densities;  ///< heads whose weights are exp(z) instead of a softmax, bool [H, 1, 1]; undefined: none
  std::unique_ptr<Recurrence> recurrence;  ///< null: the softmax

  /// Hard windows. A query sees the keys that are in all of these ranges and in AttentionContext::visible.
  std::vector<KeyRange> ranges;
  std::vector<KeyRange> always;  ///< keys that are seen even outside of `ranges`, if they are visible
  /// Hard masks that are no intervals: bool [B or 1, H or 1, I or 1, J], false where a query does not see a key.
  std::vector<Tensor> masks;
  /// Logits [H] of sinks, which take part in the softmax but have no value. −inf: the head has none. Undefined: no head
  /// has one.
  Variable sink;

  std::vector<std::unique_ptr<PairTerm>> scores;   ///< applied to the score in order, before all biases
  std::vector<std::unique_ptr<PairTerm>> biases;   ///< applied to the logits in order
  std::vector<std::unique_ptr<PairTerm>> windows;  ///< applied to the weights in order
  std::vector<std::unique_ptr<ValueTerm>> values;
  /// Named quantities for AttentionTrace, such as "center" [B, H, I]; computed only when a trace is filled.
  std::vector<std::pair<std::string, std::function<Variable()>>> quantities;

  void quantity(std::string name, std::function<Variable()> compute) {
    quantities.emplace_back(std::move(name), std::move(compute));
  }
  void quantity(std::string name, const Variable& value) {
    quantity(std::move(name), [value] { return value; });
  }
  /// Throws Error if another method has set a score already.
  void set_score(std::unique_ptr<Score> made);
  /// Throws Error if another method has set a recurrence already.
  void set_recurrence(std::unique_ptr<Recurrence> made);
};

/// A term defined by a functor f(z, position, captures...) on one pair (i, j). The author of a method writes the
/// equation; its derivatives are computed with dual numbers.
class PointwiseTerm : public PairTerm {
 public:
  PointwiseTerm(PointwiseFormula formula, std::vector<Capture> captures)
      : formula_(std::move(formula)), captures_(std::move(captures)) {}
  const PointwiseFormula& formula() const { return formula_; }
  Variable composed(const Variable& pairs, const AttentionContext& in) const override;
  std::unique_ptr<StripTerm> strips(const AttentionContext& in) const override;

 private:
  PointwiseFormula formula_;
  std::vector<Capture> captures_;
};

template <class F, class... Captures>
std::unique_ptr<PairTerm> pointwise(const F& f, const Captures&... captures) {
  return std::make_unique<PointwiseTerm>(pointwise_formula<F, Captures::per...>(f), std::vector<Capture>{captures...});
}

/// z + b, where b comes from a matrix or a table.
struct AddBias {
  static constexpr const char* name = "add_bias";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T bias) const {
    return z + bias;
  }
};

/// w · m, a window after the softmax.
struct MultiplyWindow {
  static constexpr const char* name = "multiply_window";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T w, Position<T>, T window) const {
    return w * window;
  }
};

// ---- Methods

/// Properties of the multi-head attention around a method which the method may change when the attention is
/// constructed.
struct Surroundings {
  std::int64_t value_dim;  ///< width of all heads' values: W^V [d, value_dim], W^O [value_dim, d]
  Variable (*activation)(const Variable& heads) =
      nullptr;              ///< applied to the concatenated heads, before W^O; null: none
  bool positioned = false;  ///< whether queries and keys go through LocalnessMethod::positioned()
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
  /// Replaces queries, and keys, before any method adds its terms. heads [B, H, T, D], the first one at position
  /// `first`. Called if change() sets Surroundings::positioned.
  virtual Variable positioned(const Variable& heads, std::int64_t first) {
    (void)first;
    return heads;
  }
  /// Adds this method's terms for one call to `terms`. Throws Error for inputs for which the method is not defined.
  virtual void add_terms(const AttentionContext& in, Terms& terms) = 0;
};

/// x [B, T, h · D] → [B, h, T, D], a view.
Variable split_heads(const Variable& x, std::int64_t head_dim);
/// [B, h, T, D] → [B, T, h · D]; a view where the memory order is [B, T, h, D].
Variable merge_heads(const Variable& x);

/// The pairs that take part in the softmax, by visibility, ranges and masks: bool, broadcast to [B, H, I, J];
/// undefined: all.
Tensor allowed_keys(const AttentionContext& in, const Terms& terms);

/// Σ_j w_ij v_j. weights [B, H, I, J], or one matrix per dimension of the values, [D, B, H, I, J]; value [B, H, J, D]
/// → [B, H, I, D].
Variable weighted_sum(const Variable& weights, const Variable& value);

/// The layout of traces: [B, H, I, J] as it is, [D, B, H, I, J] as [B, H, I, J, D].
Variable with_dimensions_last(const Variable& pairs);

/// Throws Error if `terms` has sinks or densities, which do not combine with a recurrence.
void check_recurrence(const Terms& terms);

/// Dropout of the attention weights. Both engines draw the same mask.
struct AttentionDropout {
  double probability = 0;
  RandomPosition at = {};  ///< of this call

  /// The mask of weights [..., J]. Every row begins a group of the mask, so that an engine draws only the groups of the
  /// keys that a query sees.
  DropoutMask mask(std::int64_t keys) const { return DropoutMask(probability, at, std::max<std::int64_t>(keys, 1)); }
};

/// The composed engine: attention with these terms in plain operations; softmax(q kᵀ / sqrt(D)) v for empty terms.
/// Fills `trace` unless it is null. → [B, H, I, D]
Variable attend_composed(const AttentionContext& in, const Terms& terms, const AttentionDropout& dropout,
                         AttentionTrace* trace);

/// Fills a trace: these weights, the score if it is not q kᵀ / sqrt(D), and the quantities of all terms.
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
