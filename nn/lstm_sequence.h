/// One direction of one LSTM layer over all steps of a batch, as one differentiable operation.
#pragma once
#include "autograd/operations.h"

namespace fovea {

/// The steps of a padded batch that are real tokens.
struct RealSteps {
  Tensor active;              ///< whether step t of sentence b is real, bool [T, B, 1]; undefined: all are
  std::int64_t unpadded = 0;  ///< steps 0 … unpadded − 1 are real in every sentence
};

/// The real steps of sentences with these lengths, i32 [B]; undefined: all have length T. Throws Error for a length
/// outside 0 … T.
RealSteps real_steps(const Tensor& lengths, std::int64_t B, std::int64_t T, Device device);

struct LstmSequence {
  Variable states;  ///< hidden state after every step, [T, B, n]; constant over a sentence's padding
  LstmState last;   ///< hidden state and cell after the last step, [B, n]; the last step is step 0 if `backward`
};

/// The states of lstm_cell(input_gates_t + h_{t−1} U, c_{t−1}) for all steps t. input_gates [T, B, 4 n], hidden_weight
/// U [n, 4 n], initial state [B, n]. Steps go from 0 to T − 1, or from T − 1 to 0 if `backward`. Records one node. The
/// gradient of U is one matrix product over all steps rather than a sum of T products.
LstmSequence lstm_sequence(const Variable& input_gates, const Variable& hidden_weight, const LstmState& initial,
                           const RealSteps& real, bool backward);

/// lstm_sequence() composed of plain operations, step by step: its definition, and the form that second derivatives are
/// taken of.
LstmSequence lstm_sequence_composed(const Variable& input_gates, const Variable& hidden_weight,
                                    const LstmState& initial, const RealSteps& real, bool backward);

}  // namespace fovea
