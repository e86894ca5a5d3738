/// Pictures of the attentions of a sequence model.
#pragma once
#include <vector>

#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/sequence/pair_data.h"
#include "experiments/support/training/record.h"
#include "nn/sequence_model.h"

namespace fovea {

/// Pictures of two pairs of a test set while the model is given source and reference. Each has one attention of each
/// kind that the model has: over the source, in the encoder, in the decoder. `tested` are the pairs' results.
std::vector<ShownSentence> attention_pictures(SequenceModel& model, const PairSet& set, const TestResult& tested,
                                              const PairTokenizers& tokenizers);

}  // namespace fovea
