/// An LSTM over all steps of a batch as one operation.
#pragma once
#include "autograd/operations.h"

namespace fovea {

/// Which steps of a padded batch are real.
struct RealSteps {
  Tensor active;              ///< boolean [T, B, 1]; undefined where no sentence is padded
  std::int64_t unpadded = 0;  ///< steps 0 … unpadded − 1 are real in every sentence
};

/// From lengths i32 [B] (undefined: all T). Throws Error for a length outside 0 … T.
RealSteps real_steps(const Tensor& lengths, std::int64_t B, std::int64_t T, Device device);

struct LstmSequence {
  Variable states;  ///< after every step, [T, B, n]; a sentence keeps its state in its padding
  LstmState last;   ///< after the last step that was run, [B, n]
};

/// Runs lstm_cell over input_gates [T, B, 4 n], to which each step adds h U; U [n, 4 n]. `backward` begins at step
/// T − 1. One node on the tape; the gradient of U is one product over all steps, not a sum of T.
LstmSequence lstm_sequence(const Variable& input_gates, const Variable& hidden_weight, const LstmState& initial,
                           const RealSteps& real, bool backward);

/// The same, step by step in plain operations: what lstm_sequence means, and what second derivatives are taken of.
LstmSequence lstm_sequence_composed(const Variable& input_gates, const Variable& hidden_weight,
                                    const LstmState& initial, const RealSteps& real, bool backward);

}  // namespace fovea
