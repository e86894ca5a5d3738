#include "experiments/support/sequence/sequence_testing.h"

#include <algorithm>

#include "autograd/operations.h"
#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/program/spent_time.h"
#include "experiments/support/sequence/sequence_training.h"
#include "experiments/support/sequence/word_alignment.h"

namespace fovea {

namespace {

/// Of all texts; the units that are not tokens only where the tokens are all of the text.
Likelihood likelihood_of_texts(const SequenceTest& test, const SequenceData& data, std::int64_t max_length) {
  Likelihood text = total(test.sentences);
  const std::span<const std::int64_t> lengths = data.test.target.lengths();
  if (max_length > 0 && *std::max_element(lengths.begin(), lengths.end()) >= max_length) return text;
  for (const TextPair& pair : data.test_texts) text += units_of_line(pair.target);
  return text;
}

/// Hears of every batch.
SentenceProgress stopping_when_interrupted(const SequenceTestOptions& options) {
  return [&options](std::int64_t) {
    if (interrupted()) throw Interrupted(options.when_stopped);
  };
}

void decode_and_score(SequenceTest& test, SequenceModel& model, const SequenceData& data,
                      const SequenceTestOptions& options) {
  Progress::Options shown;
  shown.unit = "sentences";
  Progress progress("decoding", static_cast<std::int64_t>(data.test.size()), shown);
  const SpentTime before = SpentTime::until_now();
  test.hypotheses = best_texts(decode(model, data.test, data.tokenizers, options.beam, [&](std::int64_t count) {
    progress.advance(count);
    stopping_when_interrupted(options)(count);
  }));
  test.decoding = SpentTime::until_now() - before;
  progress.finish();
  TextFile hypotheses{"hypotheses", test.hypotheses}, references{"references", {}};
  for (const TextPair& pair : data.test_texts) references.lines.push_back(pair.target);
  for (const std::string& metric : options.metrics)
    for (TextScore& score : text_scores(metric, hypotheses, {&references, 1})) test.scores.push_back(std::move(score));
}

std::optional<double> alignment_error(SequenceModel& model, const SequenceData& data, BeamFlags flags,
                                      const SentenceProgress& progress) {
  const std::vector<GoldAlignment> gold = gold_alignments(data.test_texts);
  if (gold.empty()) return {};
  flags.beam.alignments = true;
  std::vector<Hypothesis> forced = force(model, data.test, flags, progress);
  AlignmentStatistics sums;
  for (std::size_t k = 0; k < gold.size(); ++k) {
    const TextPair& pair = data.test_texts[k];
    sums += alignment_statistics(word_links(forced[k].alignment, words_of_tokens(*data.tokenizers.source, pair.source),
                                            words_of_tokens(*data.tokenizers.target, pair.target)),
                                 gold[k]);
  }
  return alignment_error_rate(sums);
}

std::vector<std::int64_t> whole_numbers(const std::vector<std::int32_t>& x) { return {x.begin(), x.end()}; }

/// Sums each attention's shares over sentences, by teacher forcing.
class SpreadSums {
 public:
  explicit SpreadSums(std::int64_t distance) : distance_(distance) {}

  void add(const SequenceTrace& trace, const PairBatch& batch) {
    const auto sources = whole_numbers(batch.source_lengths), targets = whole_numbers(batch.target_lengths);
    std::size_t number = 0;
    auto add_shares = [&](AttentionShare::Place place, const AttentionTrace& attention, std::vector<double> percent) {
      const char* stack = place == AttentionShare::Place::encoder ? "encoder." : "decoder.";
      if (number == shares_.size()) shares_.push_back({stack + attention.name, place, 0});
      for (double one : percent) shares_[number].percent += one;
      ++number;
    };
    for (const AttentionTrace& self : trace.encoder)
      add_shares(AttentionShare::Place::encoder, self, attention_within(weights(self), sources, distance_));
    for (const AttentionTrace& one : trace.decoder) {
      if (looks_at_source(one))
        add_shares(AttentionShare::Place::source, one, attention_near_peak(weights(one), targets, sources, distance_));
      else
        add_shares(AttentionShare::Place::decoder, one, attention_within(weights(one), targets, distance_));
    }
    sentences_ += batch.rows;
  }

  std::vector<AttentionShare> means() const {
    std::vector<AttentionShare> shares = shares_;
    for (AttentionShare& share : shares) share.percent /= static_cast<double>(sentences_);
    return shares;
  }

 private:
  /// [B, H, I, J], in the mean over dimensions where each has its own.
  static Tensor weights(const AttentionTrace& trace) {
    return trace.weights.rank() == 5 ? mean(trace.weights, {4}).value() : trace.weights.value();
  }

  std::int64_t distance_, sentences_ = 0;
  std::vector<AttentionShare> shares_;
};

std::vector<AttentionShare> attention_shares(SequenceModel& model, const EncodedPairs& pairs,
                                             const BatchOptions& batches, std::int64_t distance,
                                             const SentenceProgress& progress) {
  SpreadSums sums(distance);
  for_teaching_batches(model, pairs, batches, [&](const PairBatch& batch, const SequenceBatch& read, const Tensor&) {
    SequenceTrace trace;
    model.logits(read, &trace);
    sums.add(trace, batch);
    progress(batch.rows);
  });
  return sums.means();
}

}  // namespace

SequenceTest test_model(SequenceModel& model, const SequenceData& data, const SequenceTestOptions& options) {
  InterruptGuard guard("stopping soon (Ctrl-C again ends at once)");
  const SentenceProgress stopping = stopping_when_interrupted(options);
  SequenceTest test;
  test.sentences = likelihoods(model, data.test, options.batches, stopping);
  test.text = likelihood_of_texts(test, data, options.max_length);
  if (!options.metrics.empty()) decode_and_score(test, model, data, options);
  if (model.has_source()) {
    const std::span<const std::int64_t> lengths = data.test.source.lengths();
    test.source_length = mean(std::vector<double>(lengths.begin(), lengths.end()));
    if (has_source_windows(model)) test.window = source_span(model, data.test, options.beam, false, stopping);
    test.alignment_error = alignment_error(model, data, options.beam, stopping);
  }
  if (options.spread) test.shares = attention_shares(model, data.test, options.batches, *options.spread, stopping);
  stopping(0);
  return test;
}

}  // namespace fovea
