/// From texts to what a sequence model makes of them.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/support/data/pair_vocabulary.h"
#include "experiments/support/metrics/attention_spread.h"
#include "experiments/support/sequence/pair_data.h"
#include "nn/decoding.h"

namespace fovea {

class Cli;

/// The flags of beam search.
struct BeamFlags {
  BeamOptions beam = {};
  std::int64_t batch_tokens = 4096;  ///< source tokens that are decoded together, padding included, of all hypotheses
  std::int64_t batch_sentences = 0;  ///< rows of a batch, whatever their length; 0: as many as batch_tokens allows

  /// Declares --beam, --length-penalty, --min-length, --longest, ...
  void add_to(Cli& cli);
};

/// The length to which a source of so many tokens, </s> among them, may be padded where it is decoded.
std::int64_t decoded_length(std::int64_t tokens);

struct DecodedText {
  std::vector<Hypothesis> hypotheses;  ///< best first
  std::vector<std::string> texts;      ///< of each
};

using SentenceProgress = std::function<void(std::int64_t sentences)>;

/// What beam search finds for each of the encoded pairs' sources, in their order. `progress` hears of every sentence.
std::vector<DecodedText> decode(SequenceModel& model, const EncodedPairs& pairs, const PairTokenizers& tokenizers,
                                const BeamFlags& flags, const SentenceProgress& progress = {});

/// The best text of each.
std::vector<std::string> best_texts(const std::vector<DecodedText>& decoded);

/// Forced decoding: what the model says of each pair's target, token by token.
std::vector<Hypothesis> force(SequenceModel& model, const EncodedPairs& pairs, const BeamFlags& flags,
                              const SentenceProgress& progress = {});

/// Whether an attention over the source has a window, of which it computes no more: local and flexible attention. A
/// model that has none scores the whole source at each step.
bool has_source_windows(SequenceModel& model);

/// How many positions of the source, </s> among them, each step of decoding scored, over heads and layers; in a search
/// of its own, for to look on costs time. `forced`: through the pairs' targets, not by beam search.
VisionSpan source_span(SequenceModel& model, const EncodedPairs& pairs, const BeamFlags& flags, bool forced,
                       const SentenceProgress& progress = {});

}  // namespace fovea
