/// The plan of an attention call: what its methods add to the equation, as data. Engines compute a plan; each in its
/// own way, and with the same result.
///
/// For query i and key j of one head:
///
///     s_ij = f(score(q_i, k_j))           Score; f: `score_changes`, in order
///     z_ij = s_ij + Σ bias_t(i, j)        `biases`, in order
///     a_ij = softmax_j(z_ij)              over the keys that i may see: ranges and masks; or another Normalizer
///     w_ij = a_ij · Π m_t(i, j)           `windows`, in order, without normalising again
///     o_i  = Σ_j w_ij v_j + Σ r_t(w_i)    `values`
///
/// Around the normaliser heads may be mixed (HeadMixing), a second map may be added (SecondMap), and keys that no token
/// has may take part (ExtraKeys). A PairlessMixer replaces all of this on its heads.
///
/// Letters of shapes: B sentences, H heads, h heads of one part of the plan, I queries, J keys, D width of a head.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "attention/context.h"
#include "attention/formula/focus.h"
#include "attention/formula/pointwise.h"
#include "attention/formula/window.h"

namespace fovea {

struct Plan;
template <class T>
class StripTerm;
template <class T>
class StripValueTerm;
template <class T>
class StripScore;
template <template <class> class Part>
struct StripForm;

// ---- Scores

/// A score of an author's own.
class CustomScore {
 public:
  virtual ~CustomScore() = default;
  /// The logits of K keys, [B, h, I, K]. `positions` are those of the keys, i64, and broadcast to the result.
  virtual Variable logits(const Variable& queries, const Variable& keys, const Variable& weight,
                          const Tensor& positions) const = 0;
  /// The score for the CPU's fused engine (engine/cpu/strip_score.h); by default it has none.
  virtual StripForm<StripScore> strips(const Variable& queries, const Variable& keys, const Variable& weight) const;
};

/// The logit of a query and a key, computed from something of the query and something of the key.
struct Score {
  /// With q_i and k_j the rows of `queries` and `keys`, and v or V the `weight`:
  ///   product:              scale q_i · k_j
  ///   hidden:               v · tanh(q_i + k_j)       v [n] or [h, n]
  ///   hidden_by_dimension:  tanh(q_i + k_j) V         V [n, D] or [h, n, D]; a logit for each dimension of the values
  ///   location:             (q_i)_j                   keys j ≥ n have the logit of key n − 1
  ///   none:                 0
  ///   custom:               `custom` says
  enum class Form { product, hidden, hidden_by_dimension, location, none, custom };
  Form form = Form::product;
  Variable queries, keys;  ///< [B, h, I, n], [B, h, J, n]
  Variable weight = {};
  double scale = 1;
  std::shared_ptr<const CustomScore> custom = nullptr;
  HeadRange heads = {};
  /// Whether this is q · k / sqrt(D) of the call's own queries and keys, the score of every plan that says nothing
  /// else.
  bool is_default = false;

  /// The variables that the score reads, in the order queries, keys, weight.
  std::vector<Capture> captures() const;
};
/// q · k / sqrt(D) for these heads of the call.
Score default_score(const AttentionContext& in, HeadRange heads);

// ---- Terms

/// A change of the logits or weights of whole rows, written by hand. A term reads what depends on the call through its
/// captures and through the context, never through members: an engine may call it with some of the queries only.
class CustomTerm {
 public:
  virtual ~CustomTerm() = default;
  /// The term on whole matrices [B, h, I, J] or [D, B, h, I, J], in differentiable operations. This is the term's
  /// definition: tests compare all faster forms with it.
  virtual Variable composed(const Variable& pairs, const AttentionContext& in,
                            std::span<const Variable> captured) const = 0;
  /// The term for the CPU's fused engine (engine/cpu/strips.h); by default it has none.
  virtual StripForm<StripTerm> strips(const AttentionContext& in, std::span<const Variable> captured) const;
  /// Whether the result for a pair depends on no other key of its row, beside those that the query sees. An engine may
  /// then leave out keys that no query sees: `in` has the positions of those that are left.
  virtual bool is_of_seen_pairs() const { return false; }
};

/// w_ij / max(Σ_k w_ik, least): weights that sum to 1 again.
struct Renormalization {
  static constexpr double least = 1e-9;
};

/// A change of logits before the softmax or of weights after it.
struct PairTerm {
  std::variant<PointwiseFormula, PointerWindow, Renormalization, std::shared_ptr<const CustomTerm>> what;
  std::vector<Capture> captures = {};
  HeadRange heads = {};
};

/// A term defined by a functor f(z, position, captures...) on one pair (i, j). The author of a method writes the
/// equation; its derivatives are computed with dual numbers.
template <class F, class... Captures>
PairTerm pointwise(const F& f, const Captures&... captures) {
  return {pointwise_formula<F, Captures::per...>(f), {captures...}};
}

/// z + b, where b comes from a matrix or a table.
struct AddBias {
  static constexpr const char* name = "add_bias";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T bias) const {
    return z + bias;
  }
};

/// An addition to the output Σ_j w_ij v_j, written by hand; CustomTerm says what it may read.
class CustomValueTerm {
 public:
  virtual ~CustomValueTerm() = default;
  /// weights as in weighted_sum() → [B, h, I, D]
  virtual Variable composed(const Variable& weights, const AttentionContext& in,
                            std::span<const Variable> captured) const = 0;
  virtual StripForm<StripValueTerm> strips(const AttentionContext& in, std::span<const Variable> captured) const;
};

/// Σ_j w_ij R_r, r = clip(j − i, −clip, clip) + clip, where the rows R_r are those of the only capture,
/// [2 clip + 1, D].
struct RelativeValues {
  std::int64_t clip;
};

/// A term that is added to the output.
struct ValueTerm {
  std::variant<RelativeValues, std::shared_ptr<const CustomValueTerm>> what;
  std::vector<Capture> captures = {};
  HeadRange heads = {};
};

// ---- Normalisers, and what stands around them

/// A replacement for the softmax, such as sparsemax.
class CustomNormalizer {
 public:
  virtual ~CustomNormalizer() = default;
  /// Logits z [B, h, I, J] or [D, B, h, I, J] → weights. `allow` broadcasts to z and is false for keys that a query
  /// does not see: their weights are 0, also in rows where it is false everywhere. Undefined: all keys are seen.
  virtual Variable weights(const Variable& z, const Tensor& allow, std::span<const Variable> captured) const = 0;
};

/// How the logits of some heads become weights. Heads without one have the softmax.
struct Normalizer {
  enum class Form { density, custom };  ///< density: exp(z_ij), which need not sum to 1
  Form form = Form::density;
  std::shared_ptr<const CustomNormalizer> custom = nullptr;
  std::vector<Capture> captures = {};
  HeadRange heads = {};
};

/// Heads that read each other: z'_h = Σ_g before_hg z_g before the normaliser, and w'_h = Σ_g after_hg w_g after it and
/// the windows. Matrices [h, h]; undefined: none. A key that a head does not see adds nothing to the logits
/// of other heads.
struct HeadMixing {
  Variable before, after;
  HeadRange heads = {};
};

/// A second map of weights: a = normalise(z) + factor · normalise(z'), where z' is made of this score as z is of the
/// first one. The factor is per head or per query.
struct SecondMap {
  Score score;
  Capture factor;
  HeadRange heads = {};
  /// An address that stands for the keys of this map in a decoder's memory, where they are kept in their positions.
  /// Null: all of them are positioned in every call.
  const void* owner = nullptr;
};

/// Keys and values that belong to no token, [h, N, D] and [h, N, D_v]. Every query sees them, with the logit
/// q · k / sqrt(D), which biases and windows do not change; they are normalised together with the tokens.
struct ExtraKeys {
  Variable keys, values;
  HeadRange heads = {};
};

/// A computation in place of weights of pairs, such as a convolution or linear attention, in less than O(I J). It reads
/// the keys in AttentionContext::visible only: those of the query's document, of a prefix, before the padding.
class PairlessMixer {
 public:
  virtual ~PairlessMixer() = default;
  /// → [B, h, I, D_v]
  virtual Variable output(const AttentionContext& in, std::span<const Variable> captured) const = 0;
  /// The weights w with which output() is Σ_j w_ij v_j, [B, h, I, J]: its definition, for tests and traces.
  virtual Variable weights(const AttentionContext& in, std::span<const Variable> captured) const = 0;
};
struct HeadMixer {
  std::shared_ptr<const PairlessMixer> mixer;
  std::vector<Capture> captures = {};
  HeadRange heads = {};
};

// ---- Keys that are seen

/// Keys in an interval around each query, for some heads. Bounds are [B, h, I], broadcast.
struct HeadKeys {
  KeyRange keys;
  HeadRange heads = {};
};
/// Every step-th key: a query sees the keys whose distance j − i is a multiple of `step`.
struct HeadDilation {
  std::int64_t step;  ///< in tokens, at least 1
  HeadRange heads = {};
};
/// bool or u8 [B or 1, h or 1, I or 1, J]: false where a query does not see a key.
struct HeadMask {
  Tensor mask;
  HeadRange heads = {};
};

// ---- The plan

/// What all methods add to one call.
struct Plan {
  /// At most one for each head; heads without one have the default_score().
  std::vector<Score> scores;
  std::vector<PairTerm> score_changes;  ///< applied to the score in order, before all biases
  std::vector<PairTerm> biases;         ///< applied to the logits in order
  std::vector<PairTerm> windows;        ///< applied to the weights in order
  std::vector<ValueTerm> values;

  std::vector<Normalizer> normalizers;  ///< at most one for each head
  std::vector<HeadMixing> mixings;      ///< in order
  std::vector<SecondMap> second_maps;   ///< at most one for each head
  std::vector<ExtraKeys> extra_keys;    ///< at most one for each head
  std::vector<HeadMixer> mixers;        ///< at most one for each head
  std::optional<FocusedSoftmax> focus;  ///< in place of the softmax; queries are computed in order
  /// Logits [H] of sinks, which take part in the softmax but have no value. −inf: the head has none. Undefined: no head
  /// has one.
  Variable sink;

  /// Hard windows. A query sees the keys that are in all of these ranges and in AttentionContext::visible.
  std::vector<HeadKeys> ranges;
  std::vector<HeadDilation> dilations;  ///< of these keys, every step-th one
  std::vector<HeadKeys> always;  ///< keys that are seen even outside of `ranges` and `dilations`, if they are visible
  std::vector<HeadMask> masks;   ///< hard masks that are no intervals

  /// Named quantities for AttentionTrace, such as "center" [B, H, I]; computed only when a trace is filled.
  std::vector<std::pair<std::string, std::function<Variable()>>> quantities;

  void quantity(std::string name, std::function<Variable()> compute) {
    quantities.emplace_back(std::move(name), std::move(compute));
  }
  void quantity(std::string name, const Variable& value) {
    quantity(std::move(name), [value] { return value; });
  }
};

/// Adds the parts of `own`, those of a method on these heads of `in`, to `all`. Throws Error if a head would have two
/// scores or two sinks, or the attention two FocusedSoftmax.
void add_to_plan(Plan& all, Plan own, const AttentionContext& in, HeadRange heads);

/// The scores of all heads, in the order of heads: those of the plan and the default_score() of the heads between them.
/// Throws Error if a score acts on heads that do not exist or have another score.
std::vector<Score> scores_of_all_heads(const Plan& plan, const AttentionContext& in);

/// The variables that the values of a call and its plan are made of, in the order values, scores, score changes,
/// biases, windows, value terms, parts around the normaliser, focus, sink.
std::vector<Variable> variables_of(const AttentionContext& in, const Plan& plan);

/// `heads`, or all H heads if its count is 0.
inline HeadRange resolved(HeadRange heads, std::int64_t H) { return heads.count > 0 ? heads : HeadRange{0, H}; }

}  // namespace fovea
