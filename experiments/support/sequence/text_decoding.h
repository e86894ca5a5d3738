/// From texts to what a sequence model makes of them.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/support/data/pair_vocabulary.h"
#include "experiments/support/sequence/sequence_data.h"
#include "nn/decoding.h"

namespace fovea {

class Cli;

/// The flags of beam search.
struct BeamFlags {
  BeamOptions beam = {};
  std::int64_t batch_tokens = 4096;  ///< source tokens that are decoded together, padding included, of all hypotheses

  /// Declares --beam, --length-penalty, --min-length, --longest, ...
  void add_to(Cli& cli);
};

struct DecodedText {
  std::vector<Hypothesis> hypotheses;  ///< best first
  std::vector<std::string> texts;      ///< of each
};

/// What beam search finds for each of the encoded pairs' sources, in their order. `progress` hears of every sentence.
std::vector<DecodedText> decode(SequenceModel& model, const EncodedPairs& pairs, const PairTokenizers& tokenizers,
                                const BeamFlags& flags, const std::function<void(std::int64_t)>& progress = {});

/// The best text of each.
std::vector<std::string> best_texts(const std::vector<DecodedText>& decoded);

}  // namespace fovea
