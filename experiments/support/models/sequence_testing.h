/// Scores of sequence models on development and test sets.
#pragma once
#include <functional>
#include <vector>

#include "experiments/support/data/pair_data.h"
#include "experiments/support/metrics/perplexity.h"
#include "experiments/support/models/sequence_options.h"
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

/// The likelihood of each pair's target by teacher forcing, in the order of the pairs, without counts of words and
/// characters. Calls progress(n) after every batch of n sentences.
std::vector<Likelihood> likelihoods(SequenceModel& model, const EncodedPairs& pairs, const BatchOptions& batches,
                                    const std::function<void(std::int64_t sentences)>& progress = {});

/// The scores of the development set; the first selects the model.
std::vector<DevScore> development_scores(SequenceModel& model, const PairData& data, const SequenceOptions& options);

/// Tests the model on one set: likelihoods by teacher forcing, metrics of beam search, alignment error, windows and,
/// with --spread, shares of the attention. After Ctrl-C, throws Interrupted with the text `when_stopped`.
TestResult test_model(SequenceModel& model, const PairSet& set, const PairTokenizers& tokenizers,
                      const SequenceOptions& options, const std::string& when_stopped);

/// Tests the model on all test sets of the data. Writes hypotheses and pictures into the run's directory, if it has
/// one.
RunResult test_model(SequenceModel& model, const PairData& data, const SequenceOptions& options, const Run& run);

}  // namespace fovea
