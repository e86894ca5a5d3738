#include "experiments/support/training/pair_batches.h"

#include <algorithm>

#include "experiments/support/text/vocabulary.h"

namespace fovea {

void EncodedPairs::append(std::vector<int> source_tokens, std::span<const int> target_tokens) {
  source_tokens.push_back(end_id);
  source.append(source_tokens);
  target.append(target_tokens);
  lengths.push_back(static_cast<std::int64_t>(std::max(source_tokens.size(), target_tokens.size() + 1)));
}

namespace {

std::int64_t longest(const TokenStore& store, const PlannedBatch& plan) {
  std::int64_t length = 0;
  for (std::int64_t k : plan.examples) length = std::max(length, store.lengths()[static_cast<std::size_t>(k)]);
  return length;
}

}  // namespace

PairBatch fill(const PlannedBatch& plan, const EncodedPairs& pairs, const BatchOptions& options) {
  PairBatch batch;
  batch.rows = static_cast<std::int64_t>(plan.examples.size());
  batch.source_length = padded_length(longest(pairs.source, plan), options);
  batch.target_length = padded_length(longest(pairs.target, plan) + 1, options);
  batch.indices = plan.examples;
  const auto S = static_cast<std::size_t>(batch.source_length), T = static_cast<std::size_t>(batch.target_length);
  const std::size_t rows = plan.examples.size();
  batch.source.assign(rows * S, pad_id);
  batch.target_in.assign(rows * T, pad_id);
  batch.target_out.assign(rows * T, pad_id);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto k = static_cast<std::size_t>(plan.examples[row]);
    pairs.source.read(k, std::span(batch.source).subspan(row * S, S));
    std::span<std::int32_t> in = std::span(batch.target_in).subspan(row * T, T);
    std::span<std::int32_t> out = std::span(batch.target_out).subspan(row * T, T);
    const auto length = static_cast<std::size_t>(pairs.target.lengths()[k]);
    pairs.target.read(k, out);
    in[0] = begin_id;
    std::copy_n(out.begin(), length, in.begin() + 1);
    out[length] = end_id;
    batch.source_lengths.push_back(static_cast<std::int32_t>(pairs.source.lengths()[k]));
    batch.target_lengths.push_back(static_cast<std::int32_t>(length + 1));
    batch.target_tokens += static_cast<std::int64_t>(length + 1);
  }
  return batch;
}

SequenceBatch PairBatch::read(bool has_source) const {
  SequenceBatch batch;
  if (has_source) {
    batch.source = Tensor::from(source, {rows, source_length});
    batch.source_lengths = Tensor::from(source_lengths, {rows});
  }
  batch.input = Tensor::from(target_in, {rows, target_length});
  batch.lengths = Tensor::from(target_lengths, {rows});
  return batch;
}

}  // namespace fovea
