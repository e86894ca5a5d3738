/// A plan as plain records, for engines that compile the equation into kernels: no virtual functions and no closures.
///
/// There is one formula of a pair's logit and one of its weight, both as expressions with their gradients, and a list
/// of the tensors that these formulas read. Where heads have different terms, groups of heads are lowered one by one.
#pragma once
#include <optional>
#include <variant>
#include <vector>

#include "attention/plan.h"
#include "tensor/formula/expression.h"

namespace fovea {

/// How the number of a capture is found for query i and key j. n is the capture's last dimension.
enum class Indexing {
  head,          ///< one number
  query,         ///< x_i
  key,           ///< x_j
  pair,          ///< x_ij
  offset,        ///< x_c, c = clip(j − i, −clip, clip) + clip, the same table for all queries
  query_offset,  ///< x_ic
  query_column,  ///< x_ic, c = min(j, n − 1): the score Score::Form::location
  focus,         ///< p_{i−1} of LoweredCall::focus
  // numbers of a LoweredSource:
  product,  ///< x_ij
  up_to,    ///< F_ij
  from,     ///< S_ij
};

/// Numbers of pairs that are computed from queries and keys of their own: products x_ij = scale q_i · k_j, or sums of a
/// pointer φ_i, their softmax over keys, as in a PointerWindow:
///
///     F_ij = Σ φ_ik over the keys k up to the end of j's segment     S_ij = Σ φ_ik from its beginning on
///
/// A pointer may point to all keys of LoweredCall::visible, to those at or before the query's position, or to those at
/// or behind it.
struct LoweredSource {
  enum class Kind { product, pointer, pointer_up_to_query, pointer_from_query };
  Kind kind;
  Variable queries, keys;  ///< [B, H, I, n], [B, H, J, n]
  double scale;
  Tensor factors = {};  ///< of each query's logits, broadcasts to [B, H, I, 1]; undefined: 1
};

/// A tensor that a formula reads.
struct LoweredCapture {
  Variable value;  ///< as the method gave it
  Tensor numbers;  ///< its value with the dimensions [B or 1, H or 1, I or 1, n]; n is 1 for `head` and `query`
  Indexing indexing;
  std::int64_t clip = 0;   ///< in tokens; with `query_column` n − 1
  std::size_t source = 0;  ///< of LoweredCall::sources

  bool is_of_source() const { return indexing >= Indexing::product; }
  /// Whether the engine computes the numbers; `value` and `numbers` are undefined then.
  bool is_made() const { return indexing >= Indexing::focus; }

  /// The gradient of `value`, in a shape that broadcasts from it, given that of `numbers` for each sentence, head, and
  /// query or key: [B, H, I, n], with `key` [B, H, 1, J], with `offset` [parts, B, H, 1, n].
  Tensor gradient_of_value(const Tensor& gradient) const;
};

/// Pointwise formulas applied one after the other to one number x of a pair.
struct LoweredFormula {
  std::vector<PointwiseFormula> parts;  ///< the formulas; each reads as many of `captures` as it has, in order
  std::vector<LoweredCapture> captures;
  /// The result, from x, the positions of query and key, and the captures.
  Expression value() const;
  /// The gradients of x and of each capture, from the gradient of the result and then the inputs of value().
  Expression gradients() const;
};

/// A score as a product of queries and keys or a hidden layer, and a formula of it.
struct LoweredScore {
  Variable queries, keys;       ///< [B, H, I, n], [B, H, J, n]; undefined: the product is 0
  Variable hidden_weight = {};  ///< v of v · tanh(q_i + k_j), [n] or [H, n]; undefined: the score is scale q_i · k_j
  double scale = 1;
  LoweredFormula bias = {};       ///< Score::Form::location is a bias on a product of 0
  const char* missing = nullptr;  ///< the name of a score that has no such form, a string literal; null: it has one
};

/// Keys that belong to no token: every query sees them, with the logit scale q · k, which formulas do not change.
struct LoweredExtraKeys {
  Variable queries;       ///< [B, H, I, n]
  Variable keys, values;  ///< [H, N, n], [H, N, D]; undefined: there are none
  double scale = 1;
};

/// Values that depend on the distance: o_i += Σ_j w_ij R_c, c = clip(j − i, −clip, clip) + clip.
struct LoweredRelativeValues {
  Variable table;  ///< R [2 clip + 1, D]; undefined: there are none
  std::int64_t clip = 0;
};

/// A call in which all heads have the same terms:
///
///     z_ij = logit(score_ij, i, j, ...)             p_ij = the softmax of z_i over the keys that i sees, the extra
///     w_ij = p_ij · window(1, i, j, ...)                   keys, and the sink
///     o_i  = Σ_j w_ij v_j
struct LoweredCall {
  Variable queries, keys;  ///< [B, H, I, n], [B, H, J, n]; undefined: the score is 0
  Variable hidden_weight;  ///< v [n] or [H, n]: the score is v · tanh(q_i + k_j); undefined: it is scale q_i · k_j
  Variable values;         ///< [B, H, J, D]
  std::int64_t query_count = 0;   ///< I
  std::int64_t query_offset = 0;  ///< position of the first query
  double scale = 1;
  LoweredFormula logit;
  LoweredFormula window;               ///< of weights; linear in the weight
  bool renormalizes = false;           ///< w_i is divided by its sum, at least Renormalization::least, in the end
  bool is_exact = false;               ///< whether products are never rounded to bf16
  bool densities = false;              ///< p_ij = exp(min(z_ij, Normalizer::largest_exponent)) instead of the softmax
  Variable sink;                       ///< [H], or undefined
  std::vector<LoweredSource> sources;  ///< pointers first
  std::int64_t segment = 1;            ///< length of the segments of keys that pointers point to
  LoweredExtraKeys extra;
  LoweredRelativeValues relative;
  std::optional<FocusedSoftmax> focus;  ///< the last formula of the logit is its penalty

  /// The keys that a query sees: those of `visible` that lie in all `ranges` and have a distance that all `dilations`
  /// divide, or lie in one of `always`; never those hidden by one of the masks.
  KeyRange visible;
  std::vector<KeyRange> ranges, always;
  std::vector<std::int64_t> dilations;
  std::vector<Tensor> masks;  ///< bool or u8 [B or 1, H or 1, I or 1, J]

  /// The captures of the logit, then those of the window.
  std::vector<LoweredCapture> captures() const;
};

// Lowering of single members of a plan, for engines in which heads with different terms are one call.
LoweredCapture lowered(const Capture& capture);
std::vector<LoweredCapture> lowered(const std::vector<Capture>& captures);
LoweredScore lowered(const Score& score);
/// A part of the plan that needs other heads, another map or a custom normaliser, and so has no form in a fused engine,
/// as a string literal; null if there is none.
const char* part_between_heads(const Plan& plan);
/// x with dimensions of 1 added in front until it has `rank`.
Tensor with_rank(Tensor x, int rank);

/// A plan as a LoweredCall, or the part of it that has no such form, a string literal.
using Lowered = std::variant<LoweredCall, const char*>;
/// Lowers a plan without mixers that has passed check_plan(). All its parts act on all heads of the call.
Lowered lower(const AttentionContext& in, const Plan& plan);

/// The neighbouring heads of a plan on H heads that have the same terms, as ranges that cover all heads in order.
std::vector<HeadRange> groups_of_heads(const Plan& plan, std::int64_t H);

/// Whether the expression, a function with one result, is a multiple of its input number `input`, for all values of
/// the other inputs.
bool is_linear_in(const Expression& value, int input);

}  // namespace fovea
