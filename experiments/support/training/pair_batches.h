/// Batches of sentence pairs: the encoder's input, the decoder's input, and the target.
#pragma once
#include <cstdint>
#include <vector>

#include "experiments/support/data/text_pairs.h"
#include "experiments/support/data/token_store.h"
#include "experiments/support/training/batches.h"
#include "nn/sequence_model.h"

namespace fovea {

/// One part of a corpus as token numbers.
struct EncodedPairs {
  TokenStore source, target;          ///< the target without <s> and </s>
  std::vector<std::int64_t> lengths;  ///< tokens of the longer side, </s> included; batches are planned by them
  std::int64_t skipped = 0;           ///< pairs that were too long, or empty on one side

  std::size_t size() const { return lengths.size(); }
  void append(std::vector<int> source_tokens, std::span<const int> target_tokens);
};

/// A batch of pairs as row-major arrays, padded to S source and T target tokens.
struct PairBatch {
  std::int64_t rows = 0, source_length = 0, target_length = 0;
  std::vector<std::int32_t> source;          ///< [rows, S], each ends with </s>; pad_id after that
  std::vector<std::int32_t> source_lengths;  ///< [rows]
  std::vector<std::int32_t> target_in;       ///< [rows, T], <s> and the target
  std::vector<std::int32_t> target_out;      ///< [rows, T], the target and </s>; pad_id after that
  std::vector<std::int32_t> target_lengths;  ///< [rows], </s> included
  std::int64_t target_tokens = 0;            ///< their sum
  std::vector<std::int64_t> indices;         ///< [rows], the pairs

  /// The input of a model; the source is left out for a language model.
  SequenceBatch read(bool has_source) const;
  Tensor targets() const { return Tensor::from(target_out, {rows, target_length}); }
  Tensor target_length_tensor() const { return Tensor::from(target_lengths, {rows}); }
};

PairBatch fill(const PlannedBatch& plan, const EncodedPairs& pairs, const BatchOptions& options);

/// The endless training batches of the pairs.
class PairBatches : public TrainingBatches<PairBatch> {
 public:
  /// `pairs` must outlive this object.
  PairBatches(const EncodedPairs& pairs, const BatchOptions& options, std::uint64_t seed)
      : TrainingBatches(pairs.lengths, options, seed,
                        [&pairs, options](const PlannedBatch& plan) { return fill(plan, pairs, options); }) {}
};

}  // namespace fovea
