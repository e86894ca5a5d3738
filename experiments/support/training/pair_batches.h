/// Batches of sentence pairs: what an encoder reads, what a decoder reads, and what it shall say.
#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include "experiments/support/data/text_pairs.h"
#include "experiments/support/data/token_store.h"
#include "experiments/support/training/batches.h"

namespace fovea {

/// One part of a corpus as token numbers.
struct EncodedPairs {
  TokenStore source, target;          ///< the target without <s> and </s>
  std::vector<std::int64_t> lengths;  ///< of the longer side, </s> included: what batches are planned by
  std::int64_t skipped = 0;           ///< pairs that were too long, or empty on one side

  std::size_t size() const { return lengths.size(); }
  void append(std::vector<int> source_tokens, std::span<const int> target_tokens);
};

/// Padded and flat, as tensors take it. S and T are padded lengths.
struct PairBatch {
  std::int64_t rows = 0, source_length = 0, target_length = 0;
  std::vector<std::int32_t> source;          ///< [rows, S], each ends with </s>; pad_id after that
  std::vector<std::int32_t> source_lengths;  ///< [rows]
  std::vector<std::int32_t> target_in;       ///< [rows, T], <s> and the target
  std::vector<std::int32_t> target_out;      ///< [rows, T], the target and </s>; pad_id after that
  std::vector<std::int32_t> target_lengths;  ///< [rows], </s> included
  std::int64_t target_tokens = 0;            ///< their sum
  std::vector<std::int64_t> indices;         ///< [rows], the pairs
};

PairBatch fill(const PlannedBatch& plan, const EncodedPairs& pairs, const BatchOptions& options);

/// Training batches without end, each made by another thread while the one before is trained on.
class PairStream {
 public:
  /// `pairs` must outlive the stream.
  PairStream(const EncodedPairs& pairs, const BatchOptions& options, std::uint64_t seed);

  PairBatch next();
  /// Of the batch that `next` gives, as a BatchStream's.
  std::int64_t epoch() const { return epoch_; }
  std::int64_t position() const { return position_; }
  std::int64_t batches_per_epoch() const { return plan_.batches_per_epoch(); }
  void seek(std::int64_t epoch, std::int64_t position);

 private:
  void prepare();

  const EncodedPairs& pairs_;
  BatchOptions options_;
  BatchStream plan_;
  std::int64_t epoch_ = 0, position_ = 0;
  std::future<PairBatch> prepared_;
};

}  // namespace fovea
