/// Training sequence models by teacher forcing.
#pragma once
#include <functional>

#include "experiments/support/metrics/perplexity.h"
#include "experiments/support/sequence/sequence_data.h"
#include "experiments/support/training/training.h"
#include "nn/sequence_model.h"

namespace fovea {

/// How the gates of flexible attention are drawn up in fine-tuning (Shu & Nakayama 2017, eq. 9).
enum class GateNorm {
  token,    ///< the batch's mean loss of a token, minus β times the mean of its sentences' mean gates
  sentence  ///< as printed: Σ_i (−log p(y_i | x_i) − β · mean gate of i), over the number of sentences
};

struct SequenceLossOptions {
  double label_smoothing = 0.1;
  double gate = 0;  ///< β: how much large gates are worth; 0: nothing
  GateNorm gate_norm = GateNorm::token;

  void add_to(Cli& cli);
  /// Throws Error where gates are worth something and the model has none.
  void require_gates(const SequenceModel& model) const;
};

/// Does `body` for batches of the pairs, without gradients and dropout: (batch, what the model reads, what it should
/// say, i32 [B, T]).
void for_teaching_batches(
    SequenceModel& model, const EncodedPairs& pairs, const BatchOptions& batches,
    const std::function<void(const PairBatch&, const SequenceBatch& read, const Tensor& targets)>& body);

/// By teacher forcing, sentence by sentence in the order of the pairs; words are not counted. `progress` hears of the
/// sentences of every batch.
std::vector<Likelihood> likelihoods(SequenceModel& model, const EncodedPairs& pairs, const BatchOptions& batches,
                                    const std::function<void(std::int64_t sentences)>& progress = {});

class SequenceTask : public TrainingTask {
 public:
  /// `score`: what the development set says of the model, larger is better; called `score_name`. All outlive the task.
  SequenceTask(SequenceModel& model, const EncodedPairs& pairs, const BatchOptions& batches,
               const SequenceLossOptions& loss, std::uint64_t seed, std::string score_name,
               std::function<double()> score);

  double next_update(std::int64_t update, const std::function<void(const Variable&)>& add) override;
  Json place() const override { return {{"epoch", stream_.epoch()}, {"position", stream_.position()}}; }
  void seek(const Json& place) override { stream_.seek(place.at("epoch"), place.at("position")); }
  std::int64_t epoch() const override { return stream_.epoch(); }
  double score() override { return score_(); }
  std::string score_name() const override { return score_name_; }

 private:
  SequenceModel& model_;
  const BatchOptions& batches_;
  const SequenceLossOptions& loss_;
  std::uint64_t seed_;
  PairStream stream_;
  std::string score_name_;
  std::function<double()> score_;
};

}  // namespace fovea
