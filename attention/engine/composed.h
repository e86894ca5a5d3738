/// The composed engine: attention by plain differentiable operations on matrices of all pairs. It is slow and simple,
/// and defines what each part of a plan means: tests compare the other engines with it.
#pragma once
#include "attention/engine/attend.h"

namespace fovea {

/// What an engine computes.
struct AttentionOutput {
  Variable out;    ///< [B, H, I, D_v]
  Variable focus;  ///< the focus after each query of the heads of Plan::focus, [B, h, I]; undefined: there is none
};

/// Attention with this plan; softmax(q kᵀ / sqrt(D)) v for an empty one. Fills `trace` unless it is null.
AttentionOutput attend_composed(const AttentionContext& in, const Plan& plan, const AttentionDropout& dropout,
                                AttentionTrace* trace);

/// The weights w before dropout, [B, H, I, J], or [D, B, H, I, J] if each dimension of the values has its own.
struct AttentionWeights {
  Variable tokens;
  Variable others;  ///< of keys that no token has, [B, H, I, N], or undefined: those of Plan::extra_keys, then sinks
  Variable focus;   ///< AttentionOutput::focus
};
AttentionWeights composed_weights(const AttentionContext& in, const Plan& plan);
/// The output [B, H, I, D_v] from weights after dropout.
Variable composed_output(const AttentionContext& in, const Plan& plan, const AttentionWeights& weights);

/// The gradients of `inputs`, the variables that the plan reads, as differentiable functions: for the second
/// derivatives of other engines. `g` are the gradients of the output and, where the plan has a focus, of the focus
/// after each query; they may be undefined.
Gradients composed_gradients(const AttentionContext& in, const Plan& plan, const AttentionDropout& dropout,
                             const std::vector<Variable>& inputs, const Gradients& g);

/// The logits of K keys by a score, [B, h, I, K], or [D, B, h, I, K] if each dimension of the values has its own.
/// `queries` and `keys` are rows of the score's. `positions` are those of the keys, i64, and broadcast to the result.
Variable score_logits(const Score& score, const Variable& queries, const Variable& keys, const Tensor& positions);

/// A term on whole matrices; `in` is the context of the term's heads, pairs [B, h, I, J] or [D, B, h, I, J].
Variable apply_term(const PairTerm& term, const Variable& pairs, const AttentionContext& in);

/// A capture as a matrix that broadcasts to [B, h, I, J].
Variable spread(const Capture& capture, const AttentionContext& in);
/// The row of a PerOffset table for each query and key of this context, clip(j − i, −clip, clip) + clip: i64 [I, J].
Tensor offset_index(const AttentionContext& in, std::int64_t clip);

/// The pairs that take part in the softmax, by visibility, ranges and masks: bool, broadcast to [B, H, I, J];
/// undefined: all.
Tensor allowed_keys(const AttentionContext& in, const Plan& plan);

/// Σ_j w_ij v_j. weights [B, H, I, J], or one matrix per dimension of the values, [D, B, H, I, J]; value [B, H, J, D]
/// → [B, H, I, D].
Variable weighted_sum(const Variable& weights, const Variable& value);

/// The layout of traces: [B, H, I, J] as it is, [D, B, H, I, J] as [B, H, I, J, D].
Variable with_dimensions_last(const Variable& pairs);

/// Throws Error if the plan has sinks or normalisers, which do not combine with a focus.
void check_focus(const Plan& plan);

/// Fills a trace: these weights, the score if it is not the default, the quantities of all terms and, where there is a
/// focus, "focus" and "range", the first and last key of each query's window, [B, h, I, 2].
void fill_trace(const AttentionContext& in, const Plan& plan, const Variable& weights, const Variable& focus,
                AttentionTrace& trace);

}  // namespace fovea
