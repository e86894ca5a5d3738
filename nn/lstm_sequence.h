/// One direction of one LSTM layer over all steps of a batch, as one differentiable operation.
#pragma once
#include "autograd/operations.h"

namespace fovea {

/// The steps of a padded batch that are real tokens.
struct RealSteps {
  Tensor active;              ///< whether step t of sentence b is real, bool [T, B, 1]; undefined if all steps are real
  std::int64_t unpadded = 0;  ///< steps 0 … unpadded − 1 are known to be real in every sentence
};

/// Returns the real steps of B sentences with the given `lengths`, i32 [B]: step t of a sentence is real if t is less
/// than its length. Undefined `lengths` mean length T for all sentences. Throws Error for a length outside 0 … T. If
/// the lengths lie on a GPU, the host does not read them: `unpadded` is 0 then.
RealSteps real_steps(const Tensor& lengths, std::int64_t B, std::int64_t T, Device device);

struct LstmSequence {
  Variable states;  ///< hidden state after every step, [T, B, n]; does not change at a sentence's padding
  LstmState last;   ///< hidden state and cell after the last step, [B, n]; if `backward`, that is the step with t = 0
};

/// Runs an LSTM over all steps: t = 0 … T − 1, or t = T − 1 … 0 if `backward`. Step t computes the next state by
/// lstm_cell(input_gates_t + h U, c), where the hidden state h and the cell c, [B, n], are those of the step before, or
/// of `initial` at the first step. A step at padding leaves the state unchanged. `input_gates` [T, B, 4 n] is the
/// result of LstmCell::input_gates() for all steps, and `hidden_weight` is U [n, 4 n].
///
/// Records one node. Its backward pass computes the gradient of U by two matrix products, one for the first step and
/// one for all other steps together, rather than by T products.
LstmSequence lstm_sequence(const Variable& input_gates, const Variable& hidden_weight, const LstmState& initial,
                           const RealSteps& real, bool backward);

/// Computes the results of lstm_sequence() step by step from small differentiable operations. It defines what
/// lstm_sequence() computes, and is what the backward pass differentiates when second derivatives are needed.
LstmSequence lstm_sequence_composed(const Variable& input_gates, const Variable& hidden_weight,
                                    const LstmState& initial, const RealSteps& real, bool backward);

}  // namespace fovea
