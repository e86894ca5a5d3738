/// The forward and the backward pass of the fused engine. strips.h explains strips, planes, intervals, parts and items.
///
/// For the queries i of a strip and its keys j, with the equations of plan.h:
///
///     logits()      s_ij = score(q_i, k_j)            one product of matrices
///     apply()       z_ij, one bias after the other
///     normalize()   a_ij = exp(z_ij − log Σ_k exp(z_ik)), 0 for keys that i does not see
///     apply()       w_ij, one window after the other
///
/// make_steps() does all of this. Then the forward pass multiplies the weights with the values, and the backward pass
/// goes the same way back.
///
/// *What is stored and what is computed again.* The derivative of a term needs the term's input, so that the backward
/// pass needs the whole sequence of strips s, z, ..., w. They are the strip's steps. Usually the forward pass keeps
/// only one of them at a time, each step in the place of the one before, and stores log Σ exp of each row; the backward
/// pass then makes all steps again, from these logarithms. Where a head has few keys and queries, the forward pass
/// stores its steps, and the backward pass finds them (memory_of_steps()).
#pragma once
#include <vector>

#include "attention/engine/cpu/fused_call.h"

namespace fovea {

/// The results of the forward pass that the backward pass reads.
struct FusedResult {
  Tensor out;        ///< [B, H, I, D]
  Tensor log_total;  ///< LogTotal of each row, [planes, B, H, I, 2]
  Tensor focus;      ///< the focus after each query of the h heads that have one, [B, h, I], or undefined
  Tensor steps;      ///< memory_of_steps()
};

/// Memory for the steps of every item, if storing them is cheaper than computing them again: a head's strip is no
/// larger than its inputs, and every item is one strip. Otherwise undefined.
template <class T>
Tensor memory_of_steps(const FusedCall<T>& call);

/// The tensors that the forward pass fills for a trace. A member is undefined if the trace does not ask for it.
struct FusedTrace {
  Tensor weights;      ///< [planes, B, H, I, J]
  RowQuantities rows;  ///< [planes, B, H, I]; key_mass is [parts, planes, B, H, J], for the queries of each part
};
/// The row quantities of a trace, allocated.
template <class T>
RowQuantities room_for_rows(const FusedCall<T>& call);

/// The forward pass. Writes to the tensors of `result` and `trace`, which are allocated.
template <class T>
void fused_forward(const FusedCall<T>& call, const FusedResult& result, const FusedTrace& trace);

/// The backward pass. Returns the gradients of FusedCall::inputs(), in that order; undefined where `wanted` is false.
/// An undefined focus_gradient is zero.
template <class T>
std::vector<Tensor> fused_backward(const FusedCall<T>& call, const FusedResult& result, const Tensor& out_gradient,
                                   const Tensor& focus_gradient, const std::vector<bool>& wanted);

}  // namespace fovea
