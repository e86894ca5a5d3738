/// Decoding of texts with sequence models.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/data/pair_data.h"
#include "experiments/support/data/vocabulary.h"
#include "experiments/support/metrics/attention_spread.h"
#include "nn/decoding.h"

namespace fovea {

class Cli;

/// The flags of beam search.
struct BeamFlags {
  BeamOptions beam = {};
  std::int64_t batch_tokens = 4096;  ///< source tokens that are decoded together for each hypothesis, padding included
  std::int64_t batch_sentences = 0;  ///< sentences of a batch, of any length; 0: as many as batch_tokens allows

  /// Declares --beam, --length-penalty, --min-length, --longest, ...
  void add_to(Cli& cli);
};

/// The padded length with which decode() reads a source of `tokens` tokens, </s> included.
std::int64_t decoded_length(std::int64_t tokens);

struct DecodedText {
  std::vector<Hypothesis> hypotheses;  ///< best first
  std::vector<std::string> texts;      ///< of each
};

using SentenceProgress = std::function<void(std::int64_t sentences)>;

/// Decodes the source of each pair by beam search. Results are in the order of the pairs. Calls progress(n) after every
/// n sentences.
std::vector<DecodedText> decode(SequenceModel& model, const EncodedPairs& pairs, const PairTokenizers& tokenizers,
                                const BeamFlags& flags, const SentenceProgress& progress = {});

/// The best hypothesis of each text.
std::vector<std::string> best_texts(const std::vector<DecodedText>& decoded);

/// Forced decoding: the log-probability, and with flags.beam.alignments the attention, of each pair's given target,
/// step by step.
std::vector<Hypothesis> force(SequenceModel& model, const EncodedPairs& pairs, const BeamFlags& flags,
                              const SentenceProgress& progress = {});

/// Whether an attention over the source computes scores only in a window, as local and flexible attention do. Models
/// without such an attention score the whole source at each step.
bool has_source_windows(SequenceModel& model);

/// The number of source positions, </s> included, that a step of decoding scores, averaged over heads and layers.
struct SourceSpan : VisionSpan {
  std::optional<double> gate;  ///< mean gate of flexible attention over all steps, in 0 to 1
};

/// Decodes the pairs once more, because tracing would slow down a decoding that is timed: by beam search, or if
/// `forced` is set by forced decoding of the pairs' targets.
SourceSpan source_span(SequenceModel& model, const EncodedPairs& pairs, const BeamFlags& flags, bool forced,
                       const SentenceProgress& progress = {});

}  // namespace fovea
