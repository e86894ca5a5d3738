/// Batches of texts of similar length, with little padding, by a budget of tokens. Which examples share a batch depends
/// only on lengths, options, seed and epoch: to continue a run, its epoch and position suffice.
#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <span>
#include <vector>

#include "experiments/support/data/classification.h"
#include "experiments/support/text/vocabulary.h"
#include "nn/parallel/process_group.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

namespace fovea {

class Cli;

struct BatchOptions {
  std::int64_t tokens = 4096;        ///< most tokens of a batch, padding included
  std::int64_t sentences = 0;        ///< rows of a batch of any length; 0: as many as `tokens` allows
  std::int64_t length_multiple = 8;  ///< padded lengths are multiples of this
  /// Micro-batches of an update; their gradients are added. Several processes share them out.
  std::int64_t accumulate = processes().size();
};

/// Declares --batch-tokens, --batch-sentences, --length-multiple and --accumulate.
void add_options(Cli& cli, BatchOptions& options);

/// The choice of the examples of one batch.
struct PlannedBatch {
  std::int64_t length = 0;             ///< padded length; no example is longer
  std::vector<std::int64_t> examples;  ///< indices into the lengths
};

/// Whether a text of `tokens` tokens, padded, fits into a batch.
bool fits(std::int64_t tokens, const BatchOptions& options);

/// The length to which a text of `tokens` tokens is padded. Padded lengths are multiples of length_multiple at least an
/// eighth apart, so that few shapes occur.
std::int64_t padded_length(std::int64_t tokens, const BatchOptions& options);

/// The batches of one epoch: every example once, examples and batches in random order. Examples of the same
/// padded_length() form a bucket. A batch has as many rows as the budget of tokens allows, rounded down to a multiple
/// of 8 if there are 8; a rest of less than half a batch moves to the next bucket. The shapes of batches, and how often
/// each occurs, depend on lengths and options alone and are the same in every epoch: at most two row counts for a
/// padded length. Throws Error if an example does not fit into the budget.
std::vector<PlannedBatch> training_batches(std::span<const std::int64_t> lengths, const BatchOptions& options,
                                           std::uint64_t seed, std::int64_t epoch);

/// Batches of the same shapes for evaluation: short texts first, examples in their order.
std::vector<PlannedBatch> evaluation_batches(std::span<const std::int64_t> lengths, const BatchOptions& options);

/// Examples as token numbers.
struct EncodedExamples {
  std::vector<std::vector<int>> tokens;
  std::vector<std::int64_t> lengths;  ///< tokens in each
  std::vector<int> labels, groups;
  std::size_t size() const { return tokens.size(); }
};

/// Encodes the first max_length tokens of each text (0: all). A text without tokens becomes <unk>, because no row may
/// be padding alone.
EncodedExamples encode(std::span<const Example> examples, const Tokenizer& tokenizer, std::int64_t max_length);

/// A batch of B texts, padded to the length T.
struct TextBatch {
  std::int64_t rows = 0, length = 0;  ///< B and T
  std::vector<std::int32_t> tokens;   ///< [B, T], pad_id after a row's end
  std::vector<std::int32_t> lengths;  ///< [B]
  std::vector<std::int32_t> labels;   ///< [B]
  std::vector<std::int64_t> indices;  ///< [B], the examples

  Tensor token_tensor() const { return Tensor::from(tokens, {rows, length}); }
  Tensor length_tensor() const { return Tensor::from(lengths, {rows}); }
  Tensor label_tensor() const { return Tensor::from(labels, {rows}); }
};

TextBatch fill(const PlannedBatch& plan, const EncodedExamples& examples);

/// The position of a training in its data, which is part of a checkpoint.
class BatchPlace {
 public:
  virtual ~BatchPlace() = default;
  virtual std::int64_t accumulate() const = 0;  ///< micro-batches of an update, of all processes together
  /// Between updates: epoch and position of the next update's first batch. Epochs count from 0, positions from 0 to the
  /// epoch's number of batches − 1.
  virtual std::int64_t epoch() const = 0;
  virtual std::int64_t position() const = 0;
  /// Continues from this position. Throws Error if the epoch has no such position.
  virtual void seek(std::int64_t epoch, std::int64_t position) = 0;
};

/// The endless plans of training batches, epoch after epoch.
class BatchPlans {
 public:
  /// `lengths` must outlive this object.
  BatchPlans(std::span<const std::int64_t> lengths, const BatchOptions& options, std::uint64_t seed);

  /// Returns the plan at (epoch, position) and moves to the next position.
  PlannedBatch next();

  /// Epoch and position of the next plan.
  std::int64_t epoch() const { return epoch_; }
  std::int64_t position() const { return position_; }
  std::int64_t batches_per_epoch() const { return static_cast<std::int64_t>(plans_.size()); }
  /// Continues from this position. Throws Error if the epoch has no such position.
  void seek(std::int64_t epoch, std::int64_t position);

 private:
  std::span<const std::int64_t> lengths_;
  BatchOptions options_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0, position_ = 0;
  std::vector<PlannedBatch> plans_;
};

/// Endless training batches. Another thread fills the next batch during an update.
///
/// An update has --accumulate batches, numbered 0, 1, ... If several processes train together, process r of P gets
/// those with the numbers r, r + P, ... (at least one).
template <class Batch>
class TrainingBatches : public BatchPlace {
 public:
  /// fill(plan) makes a batch. `lengths`, and all that `fill` reads, must outlive this object.
  TrainingBatches(std::span<const std::int64_t> lengths, const BatchOptions& options, std::uint64_t seed,
                  std::function<Batch(const PlannedBatch&)> fill)
      : plans_(lengths, options, seed), accumulate_(options.accumulate), fill_(std::move(fill)) {
    require(accumulate_ >= processes().size(),
            "--accumulate {}: the batches of an update are shared by {} processes; give each at least one", accumulate_,
            processes().size());
    prepare();
  }

  /// This process's next batch.
  Batch next() {
    Batch batch = prepared_.get();
    prepare();
    return batch;
  }
  std::int64_t accumulate() const override { return accumulate_; }
  std::int64_t epoch() const override { return epoch_; }
  std::int64_t position() const override { return position_; }
  std::int64_t batches_per_epoch() const { return plans_.batches_per_epoch(); }
  void seek(std::int64_t epoch, std::int64_t position) override {
    prepared_.wait();
    plans_.seek(epoch, position);
    number_ = 0;
    prepare();
  }

 private:
  /// Lets another thread fill the next batch of this process. Skips those of the others.
  void prepare() {
    for (bool is_own = false; !is_own;) {
      if (number_ == 0) epoch_ = plans_.epoch(), position_ = plans_.position();
      is_own = number_ % processes().size() == processes().rank();
      PlannedBatch plan = plans_.next();
      number_ = (number_ + 1) % accumulate_;
      if (is_own) prepared_ = std::async(std::launch::async, [this, plan = std::move(plan)] { return fill_(plan); });
    }
  }

  BatchPlans plans_;
  std::int64_t accumulate_;
  std::function<Batch(const PlannedBatch&)> fill_;
  std::int64_t number_ = 0;                ///< in its update, of the batch after the one that is being prepared
  std::int64_t epoch_ = 0, position_ = 0;  ///< of the first batch of the update that the prepared one belongs to
  std::future<Batch> prepared_;
};

}  // namespace fovea
