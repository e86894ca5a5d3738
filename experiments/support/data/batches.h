/// Batches of pairs of similar length, with little padding, by a budget of tokens. Which pairs share a batch depends
/// only on lengths, options, seed and epoch: to continue a run, its epoch and position suffice.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "nn/parallel/process_group.h"
#include "nn/sequence_model.h"
#include "tensor/tensor.h"

namespace fovea {

class TokenStore {
 public:
  void append(std::span<const int> tokens) {
    begins_.push_back(tokens_.size());
    lengths_.push_back(std::ssize(tokens));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  std::size_t size() const { return lengths_.size(); }
  /// Tokens of each text.
  std::span<const std::int64_t> lengths() const { return lengths_; }
  /// The tokens of text k.
  std::span<const std::int32_t> operator[](std::size_t k) const {
    return std::span(tokens_).subspan(begins_[k], std::size_t(lengths_[k]));
  }

 private:
  std::vector<std::size_t> begins_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int32_t> tokens_;
};

class Cli;

struct BatchOptions {
  std::int64_t tokens = 4096;        ///< most tokens of a batch, padding included
  std::int64_t sentences = 0;        ///< rows of a batch of any length; 0: as many as `tokens` allows
  std::int64_t length_multiple = 8;  ///< padded lengths are multiples of this
  /// Micro-batches of an update; their gradients are added. Several processes share them out.
  std::int64_t accumulate = processes().size();

  /// Declares --batch-tokens, --batch-sentences, --length-multiple and --accumulate.
  void add_to(Cli& cli);
};

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

/// One part of a corpus as token numbers.
struct EncodedPairs {
  TokenStore source = {}, target = {};  ///< the target without <s> and </s>; of labelled texts the number of the label
  std::vector<std::int64_t> lengths = {};  ///< tokens of the longer side, </s> included; batches are planned by them
  bool has_labels = false;                 ///< the sources have no </s>, and the targets are not written

  std::size_t size() const { return lengths.size(); }
  /// Appends a pair; the source gets its </s>, or <unk> where a labelled text has no token.
  void append(std::vector<int> source_tokens, std::span<const int> target_tokens);
};

/// A batch of pairs as row-major arrays, padded to S source and T target tokens. Of labelled texts the target is the
/// label alone.
struct PairBatch {
  std::int64_t rows = 0, source_length = 0, target_length = 0;
  std::vector<std::int32_t> source;          ///< [rows, S], each ends with </s>; pad_id after that
  std::vector<std::int32_t> source_lengths;  ///< [rows]
  std::vector<std::int32_t> target_in;       ///< [rows, T], <s> and the target
  std::vector<std::int32_t> target_out;      ///< [rows, T], the target and </s>; pad_id after that
  std::vector<std::int32_t> target_lengths;  ///< [rows], </s> included
  std::int64_t target_tokens = 0;            ///< their sum
  std::vector<std::int64_t> indices;         ///< [rows], the pairs

  Tensor source_tensor() const { return Tensor::from(source, {rows, source_length}); }
  Tensor source_length_tensor() const { return Tensor::from(source_lengths, {rows}); }
  /// The input of a model; the source is left out for a language model.
  SequenceBatch read(bool has_source) const;
  Tensor targets() const { return Tensor::from(target_out, {rows, target_length}); }
  Tensor labels() const { return Tensor::from(target_out, {rows}); }  ///< of labelled texts
  Tensor target_length_tensor() const { return Tensor::from(target_lengths, {rows}); }
};

PairBatch fill(const PlannedBatch& plan, const EncodedPairs& pairs, const BatchOptions& options);

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

/// Endless training batches, epoch after epoch. Another thread fills the next batch during an update.
///
/// An update has --accumulate batches, numbered 0, 1, ... If several processes train together, process r of P gets
/// those with the numbers r, r + P, ... (at least one).
class PairBatches : public BatchPlace {
 public:
  /// `pairs` must outlive this object.
  PairBatches(const EncodedPairs& pairs, const BatchOptions& options, std::uint64_t seed);

  /// This process's next batch.
  PairBatch next();
  std::int64_t accumulate() const override { return options_.accumulate; }
  std::int64_t epoch() const override { return epoch_; }
  std::int64_t position() const override { return position_; }
  std::int64_t batches_per_epoch() const { return std::ssize(plans_); }
  void seek(std::int64_t epoch, std::int64_t position) override;

 private:
  void plan(std::int64_t epoch, std::int64_t position);
  void prepare();

  const EncodedPairs& pairs_;
  BatchOptions options_;
  std::uint64_t seed_;
  std::vector<PlannedBatch> plans_;                  ///< of one epoch
  std::int64_t plan_epoch_ = 0, plan_position_ = 0;  ///< of the plan behind the batch that is being prepared
  std::int64_t number_ = 0;                          ///< the place of that plan in its update
  std::int64_t epoch_ = 0, position_ = 0;  ///< of the first batch of the update that the prepared one belongs to
  std::future<PairBatch> prepared_;
};

}  // namespace fovea
