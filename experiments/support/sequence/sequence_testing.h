/// What a trained sequence model says of a part of the data.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/metrics/attention_spread.h"
#include "experiments/support/metrics/perplexity.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/program/spent_time.h"
#include "experiments/support/sequence/sequence_data.h"
#include "experiments/support/sequence/text_decoding.h"
#include "nn/sequence_model.h"

namespace fovea {

struct SequenceTestOptions {
  std::vector<std::string> metrics;  ///< of decoded texts (text_metrics.h); none: no decoding
  const BeamFlags& beam;
  const BatchOptions& batches;
  std::int64_t max_length = 0;     ///< tokens that were kept of a text; 0: all
  std::optional<int> spread = {};  ///< measure the attention within so many tokens
  std::string when_stopped = {};   ///< what is said after Ctrl-C
};

/// How much of an attention lies near the query's own position, or of one over the source near its peak.
struct AttentionShare {
  std::string name;  ///< "encoder.0.attention", "decoder.2.cross"
  enum class Place { encoder, decoder, source } place;
  double percent;
};

struct SequenceTest {
  std::vector<Likelihood> sentences;      ///< of each pair that is encoded
  Likelihood text;                        ///< of all; words and characters are 0 where the texts were cut
  std::vector<TextScore> scores;          ///< sentence by sentence
  std::vector<std::string> hypotheses;    ///< best texts
  SpentTime decoding;                     ///< of beam search
  std::optional<VisionSpan> window;       ///< positions of the source that decoding scored; of models with windows
  std::optional<double> source_length;    ///< mean, in tokens with </s>: the window of models without windows
  std::optional<double> alignment_error;  ///< of the forced references' attention, where there are gold links
  std::vector<AttentionShare> shares;     ///< where `spread` asks for it

  double sentences_per_second() const { return static_cast<double>(hypotheses.size()) / decoding.wall; }
};

/// Tests on data.test, until Ctrl-C: the likelihood by teacher forcing; beam search and its metrics; what attention
/// did.
SequenceTest test_model(SequenceModel& model, const SequenceData& data, const SequenceTestOptions& options);

}  // namespace fovea
