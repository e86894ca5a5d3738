/// Pictures of the attentions of a sequence model.
#pragma once
#include <vector>

#include "experiments/support/data/pair_data.h"
#include "experiments/support/record/record.h"
#include "experiments/support/report/attention_pictures.h"
#include "nn/sequence_model.h"

namespace fovea {

/// One pair as the model's input, with its tokens as words.
struct ShownPair {
  SequenceBatch batch;
  std::string text;                                ///< the source, if there is one, and the target
  std::vector<std::string> source, input, output;  ///< tokens: of the source, and of the decoder's input and targets
};
ShownPair shown_pair(const EncodedPairs& pairs, const PairTokenizers& tokenizers, std::size_t k, bool has_source);

/// Pictures of two pairs of a test set under teacher forcing. Each pair has one attention of each kind that the model
/// has: over the source, in the encoder, in the decoder. `tested` has the results of the pairs.
std::vector<ShownSentence> attention_pictures(SequenceModel& model, const PairSet& set, const TestResult& tested,
                                              const PairTokenizers& tokenizers);

}  // namespace fovea
