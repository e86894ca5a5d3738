/// Pictures of the attentions of a sequence model.
#pragma once
#include <vector>

#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/sequence/pair_data.h"
#include "experiments/support/training/record.h"
#include "nn/sequence_model.h"

namespace fovea {

/// Pictures of two pairs of a test set under teacher forcing. Each pair has one attention of each kind that the model
/// has: over the source, in the encoder, in the decoder. `tested` has the results of the pairs.
std::vector<ShownSentence> attention_pictures(SequenceModel& model, const PairSet& set, const TestResult& tested,
                                              const PairTokenizers& tokenizers);

}  // namespace fovea
