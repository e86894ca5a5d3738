/// The composed engine: attention by plain differentiable operations on matrices of all query-key pairs. It is simple
/// and defines what each part of a plan means; tests compare the other engines with it.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "attention/engine/attend.h"
#include "attention/engine/row_quantities.h"
#include "autograd/node.h"

namespace fovea {

/// What an engine computes.
struct AttentionOutput {
  Variable out;    ///< [B, H, I, D_v]
  Variable focus;  ///< the focus after each query, for the heads of Plan::focus, [B, h, I]; undefined without a focus
};

/// The output of a call with this plan; softmax(q kᵀ / sqrt(D)) v if the plan is empty. Fills `trace` unless it is
/// null.
AttentionOutput attend_composed(const AttentionContext& in, const Plan& plan, const AttentionDropout& dropout,
                                AttentionTrace* trace);

/// The weights w before dropout, [B, H, I, J], or [D, B, H, I, J] if each dimension of the values has its own.
struct AttentionWeights {
  Variable tokens;
  Variable
      others;      ///< weights [B, H, I, N] of the plan's ExtraKeys in order, then of its sinks; undefined: it has none
  Variable focus;  ///< AttentionOutput::focus
};
AttentionWeights composed_weights(const AttentionContext& in, const Plan& plan);
/// The output [B, H, I, D_v] from weights after dropout.
Variable composed_output(const AttentionContext& in, const Plan& plan, const AttentionWeights& weights);

/// The backward pass of an engine: the gradients of a call's inputs, in their order, from those of its results.
/// Undefined gradients are 0; that of the output is always defined.
using AttentionBackward =
    std::function<std::vector<Tensor>(const Tensor& of_out, const Tensor& of_focus, const Node& node)>;
/// The results of an engine's call as variables: recorded as one node if one of `inputs`, the variables that the call
/// reads, requires a gradient. `focus` is undefined if the plan has none. The backward pass throws Error if an input, a
/// bound or a mask has changed since the forward pass. Second derivatives are those of the composed engine. `name` must
/// be a string literal.
AttentionOutput record_call(const char* name, const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                            const AttentionDropout& dropout, const std::vector<Variable>& inputs, const Tensor& out,
                            const Tensor& focus, AttentionBackward backward);

/// The logits of a score, [B, h, I, J], or [D, B, h, I, J] if each dimension of the values has its own. `positions` are
/// those of the keys, i64 [J]; only Score::Form::location reads them.
Variable score_logits(const Score& score, const Tensor& positions);

/// Applies a term to pairs [B, h, I, J] or [D, B, h, I, J]; `in` is the context restricted to the term's heads.
Variable apply_term(const PairTerm& term, const Variable& pairs, const AttentionContext& in);

/// A capture as a tensor that broadcasts to [B, h, I, J]. Vectors and whole tensors are returned as they are.
Variable spread(const Capture& capture, const AttentionContext& in);

/// Which keys each query sees, by lengths, causality, documents and the plan's ranges, dilations and masks: bool,
/// broadcasts to [B, H, I, J]. Undefined: every query sees every key.
Tensor allowed_keys(const AttentionContext& in, const Plan& plan);

/// The row quantities of a call whose weights are known, [B, H, ...] or [D, B, H, ...].
RowQuantities row_quantities(const AttentionContext& in, const Plan& plan, const AttentionWeights& weights);

/// Weights in the layout of AttentionTrace: [D, B, H, I, J] becomes [B, H, I, J, D]; [B, H, I, J] is returned as it is.
Variable with_dimensions_last(const Variable& pairs);

/// Fills a trace with these weights, with "scores" if the plan sets a score, with the plan's quantities and, if the
/// plan has a focus, with "focus" [B, h, I] and "range", the first and last key of each query's window, [B, h, I, 2].
void fill_trace(const AttentionContext& in, const Plan& plan, const Variable& weights, const Variable& focus,
                AttentionTrace& trace);
/// fill_trace() with the weights of composed_weights(), as constants.
void trace_composed_weights(const AttentionContext& in, const Plan& plan, const Variable& focus, AttentionTrace& trace);

}  // namespace fovea
