/// The plan of an attention call: all terms that the methods add to the equation, as data. An engine computes the
/// output from a plan; all engines give the same result.
///
/// For query i and key j of one head:
///
///     s_ij = f(score(q_i, k_j))           Score; f: `score_changes`, in order
///     z_ij = s_ij + Σ bias_t(i, j)        `biases`, in order
///     a_ij = softmax_j(z_ij)              over the keys that i may see: ranges and masks; or another Normalizer
///     w_ij = a_ij · Π m_t(i, j)           `windows`, in order, without normalising again
///     o_i  = Σ_j w_ij v_j + Σ r_t(w_i)    `values`
///
/// Three further parts change how logits become weights. HeadMixing lets heads read each other's logits or weights.
/// SecondMap adds a second softmax, with a factor. ExtraKeys adds keys and values that belong to no token. On some
/// heads a PairlessMixer may replace the whole equation.
///
/// Letters of shapes: B sentences, H heads of the attention, h heads that one part of the plan acts on, I queries, J
/// keys, D width of a head.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "attention/context.h"
#include "attention/engine/cpu/pointwise_loops.h"
#include "attention/formula/focus.h"
#include "attention/formula/pointwise.h"
#include "attention/formula/window.h"

namespace fovea {

// ---- Scores

/// How the logit of a query and a key is computed: from one row of `queries`, one row of `keys` and parameters.
struct Score {
  /// With q_i and k_j the rows of `queries` and `keys`, and v or V the `weight`:
  ///   product:              scale q_i · k_j
  ///   hidden:               v · tanh(q_i + k_j)       v [n] or [h, n]
  ///   hidden_by_dimension:  tanh(q_i + k_j) V         V [n, D] or [h, n, D]; a logit for each dimension of the values
  ///   location:             (q_i)_j                   keys j ≥ n have the logit of key n − 1
  ///   none:                 0
  enum class Form { product, hidden, hidden_by_dimension, location, none };
  Form form = Form::product;
  /// [B, h, I, n] and [B, h, J, n]. location and none do not read the keys, but need some, such as the key of the call.
  Variable queries, keys;
  Variable weight = {};
  double scale = 1;
  HeadRange heads = {};
  /// Whether this is q · k / sqrt(D) of the call's own queries and keys, which heads have where no method sets a score.
  bool is_default = false;

  /// The variables that the score reads, in the order queries, keys, weight.
  std::vector<Capture> captures() const;
};
/// q · k / sqrt(D) for these heads of the call.
Score default_score(const AttentionContext& in, HeadRange heads);

// ---- Terms

/// A change of the logits or weights that needs a whole row at once, written by hand. A term reads tensors of the call
/// through its captures and through the context, never through members: an engine may call it for a block of the
/// queries, with the captures of that block. A term that the CPU's fused engine computes too has another base class,
/// WithStrips (engine/cpu/strips.h).
class CustomTerm {
 public:
  virtual ~CustomTerm() = default;
  /// The term on whole matrices [B, h, I, J] or [D, B, h, I, J], in differentiable operations. This defines the term:
  /// tests compare all faster forms with it.
  virtual Variable composed(const Variable& pairs, const AttentionContext& in, const Captured& captured) const = 0;
  /// Whether the result for a pair depends only on keys that its query sees. An engine may then leave out keys that no
  /// query of a block sees; the context's `key_positions` are the positions of the remaining keys.
  virtual bool is_of_seen_pairs() const { return false; }
};

/// Divides a row of weights by its sum: w_ij / max(Σ_k w_ik, least).
struct Renormalization {
  static constexpr double least = 1e-9;
};

/// One term of the equation: a change of the logits before the normaliser, or of the weights after it.
struct PairTerm {
  std::variant<PointwiseFormula, PointerWindow, Renormalization, std::shared_ptr<const CustomTerm>> what;
  std::vector<Capture> captures = {};
  HeadRange heads = {};
};

/// A term defined by a functor f(z, position, captures...) of one pair (i, j), where z is the pair's logit or weight.
/// Derivatives are computed from the functor with dual numbers, so the author writes the equation only.
template <class F, class... Captures>
PairTerm pointwise(const F& f, const Captures&... captures) {
  return {pointwise_formula<F, Captures::per...>(f), {captures...}};
}

/// The bias z + b, where b is a capture: an entry of a matrix (PerPair) or of a table (PerOffset).
struct AddBias {
  static constexpr const char* name = "add_bias";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T bias) const {
    return z + bias;
  }
};

/// Adds Σ_j w_ij R_r to the output, r = clip(j − i, −clip, clip) + clip. The only capture is the table R, [2 clip + 1,
/// D].
struct RelativeValues {
  std::int64_t clip;
  std::vector<Capture> captures = {};
  HeadRange heads = {};
};

// ---- Normalisers, and changes of how logits become weights

/// A function other than the softmax that computes weights from logits, such as sparsemax.
class CustomNormalizer {
 public:
  virtual ~CustomNormalizer() = default;
  /// The weights for logits z [B, h, I, J + N] or [D, B, h, I, J + N]; same shape. The first J columns are the keys of
  /// `tokens` = J tokens, in order. The N others, if there are any, belong to extra keys and sinks, which have no
  /// position. `allow` is bool, broadcasts to z and is false for keys that a query does not see: these must get weight
  /// 0, also in rows without any visible key. An undefined `allow` means that every query sees every key.
  virtual Variable weights(const Variable& z, std::int64_t tokens, const Tensor& allow,
                           const Captured& captured) const = 0;
};

/// The function that computes the weights of some heads from their logits. Heads without one use the softmax.
struct Normalizer {
  enum class Form { density, custom };            ///< density: exp(min(z_ij, 40)), which need not sum to 1
  static constexpr double largest_exponent = 40;  ///< of a density; exp(89) would not fit f32
  Form form = Form::density;
  std::shared_ptr<const CustomNormalizer> custom = nullptr;
  std::vector<Capture> captures = {};
  HeadRange heads = {};
};

/// Linear combinations of heads: z'_h = Σ_g before_hg z_g before the normaliser, and w'_h = Σ_g after_hg w_g after it
/// and after the windows. Both matrices are [h, h]; an undefined matrix mixes nothing. A key that head g does not see
/// contributes 0 to the logits of other heads.
struct HeadMixing {
  Variable before, after;
  HeadRange heads = {};
};

/// A second attention map: a = normalise(z) + factor · normalise(z'). z' has this score in place of the first one, and
/// the same score changes, biases and mixing as z. The factor has one number per head or per query.
struct SecondMap {
  Score score;
  Capture factor;
  HeadRange heads = {};
  /// Identifies this map in a decoder's memory, which caches the map's keys after LocalnessMethod::positioned(). Null:
  /// nothing is cached, and positioned() is applied to all keys in every call.
  const void* owner = nullptr;
};

/// N additional keys and values per head that belong to no token, [h, N, D] and [h, N, D_v]. Every query sees them,
/// with the logit q · k / sqrt(D), which biases and windows do not change. One softmax normalises them together with
/// the keys of tokens.
struct ExtraKeys {
  Variable keys, values;
  HeadRange heads = {};
};

/// A computation that replaces the whole equation on its heads, such as a convolution or linear attention, in less than
/// O(I J) time. It must respect AttentionContext::visible and `allowed`; hard windows of the plan do not combine with
/// it.
class PairlessMixer {
 public:
  virtual ~PairlessMixer() = default;
  /// The output [B, h, I, D_v].
  virtual Variable output(const AttentionContext& in, const Captured& captured) const = 0;
  /// The weights w [B, h, I, J] for which output() equals Σ_j w_ij v_j. This defines the mixer; tests and traces use
  /// it.
  virtual Variable weights(const AttentionContext& in, const Captured& captured) const = 0;
};
struct HeadMixer {
  std::shared_ptr<const PairlessMixer> mixer;
  std::vector<Capture> captures = {};
  HeadRange heads = {};
};

// ---- Keys that are seen

/// A hard window: the interval of keys that each query of some heads sees. Bounds broadcast to [B, h, I].
struct HeadKeys {
  KeyRange keys;
  HeadRange heads = {};
};
/// A dilated window: a query sees only the keys whose distance j − i is a multiple of `step`.
struct HeadDilation {
  std::int64_t step;  ///< in tokens, at least 1
  HeadRange heads = {};
};
/// A hard mask of any pattern, bool or u8 [B or 1, h or 1, I or 1, J]: false where a query does not see a key.
struct HeadMask {
  Tensor mask;
  HeadRange heads = {};
};

/// A named quantity for AttentionTrace, such as "center" [B, h, I], which is computed only if the caller wants a trace.
struct PlanQuantity {
  std::string name;
  std::function<Variable()> compute;
  HeadRange heads = {};
};

// ---- The plan

/// All terms of one attention call.
struct Plan {
  /// At most one for each head; heads without one have the default_score().
  std::vector<Score> scores;
  std::vector<PairTerm> score_changes;  ///< applied to the score in order, before all biases
  std::vector<PairTerm> biases;         ///< applied to the logits in order
  std::vector<PairTerm> windows;        ///< applied to the weights in order
  std::vector<RelativeValues> values;

  std::vector<Normalizer> normalizers;  ///< at most one for each head
  std::vector<HeadMixing> mixings;      ///< in order
  std::vector<SecondMap> second_maps;   ///< at most one for each head
  std::vector<ExtraKeys> extra_keys;    ///< at most one for each head
  std::vector<HeadMixer> mixers;        ///< at most one for each head
  std::optional<FocusedSoftmax> focus;  ///< replaces the softmax on its heads; queries are then computed in order
  /// Attention sinks, one logit per head [H]. A sink takes part in the softmax but has no value, so the other weights
  /// sum to less than 1. −inf: this head has no sink; undefined: no head has one.
  Variable sink;
  std::vector<HeadRange> sink_heads;  ///< the heads that have a sink, in an attention's plan

  /// Hard windows. A query sees the keys that lie in all of these ranges and in AttentionContext::visible.
  std::vector<HeadKeys> ranges;
  std::vector<HeadDilation> dilations;  ///< within the ranges, only every step-th key is seen
  std::vector<HeadKeys>
      always;                   ///< keys seen even outside of `ranges` and `dilations`, if in AttentionContext::visible
  std::vector<HeadMask> masks;  ///< masks, which hide keys of `always` too

  std::vector<PlanQuantity> quantities;

  void quantity(std::string name, std::function<Variable()> compute) {
    quantities.push_back({std::move(name), std::move(compute)});
  }
  void quantity(std::string name, const Variable& value) {
    quantity(std::move(name), [value] { return value; });
  }
};

/// Adds `own`, the plan of one method on these heads, to `all`, the plan of the attention with context `in`. Throws
/// Error if two methods give a head a score, sink, normaliser, second map, extra keys or mixer each, if a second method
/// brings a focus, or if another method changes the heads of a mixer.
void add_to_plan(Plan& all, Plan own, const AttentionContext& in, HeadRange heads);

/// The scores of all heads, in the order of heads: the plan's scores, with default_score() for the heads that have
/// none. Throws Error if a score acts on heads that do not exist or that already have a score.
std::vector<Score> scores_of_all_heads(const Plan& plan, const AttentionContext& in);

/// All variables that the output of a call depends on: the values, then those of the plan's scores, score changes,
/// biases, windows, value terms, normalisers, head mixings, second maps, extra keys, mixers, focus and sink, in this
/// order.
std::vector<Variable> variables_of(const AttentionContext& in, const Plan& plan);

/// `heads`, or all H heads if its count is 0.
inline HeadRange resolved(HeadRange heads, std::int64_t H) { return heads.count > 0 ? heads : HeadRange{0, H}; }

}  // namespace fovea
