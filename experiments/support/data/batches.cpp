#include "experiments/support/data/batches.h"

#include <functional>

#include "experiments/support/data/vocabulary.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/split_mix.h"
#include "tensor/error.h"

namespace fovea {

namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// The padded length after `length`: at least an eighth longer. Few lengths occur, and long texts have less than an
/// eighth of padding.
std::int64_t next_padded_length(std::int64_t length, std::int64_t multiple) {
  return rounded_up(std::max(length + multiple, length + length / 8), multiple);
}

/// All padded lengths up to that of `longest`.
std::vector<std::int64_t> padded_lengths(std::int64_t longest, std::int64_t multiple) {
  const std::int64_t last = rounded_up(longest, multiple);
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = multiple; length < last; length = next_padded_length(length, multiple))
    lengths.push_back(length);
  lengths.push_back(last);
  return lengths;
}

std::int64_t rows_of(const BatchOptions& options, std::int64_t length) {
  if (options.sentences > 0) return options.sentences;
  const std::int64_t rows = options.tokens / length;
  return rows >= 8 ? rows / 8 * 8 : rows;
}

void check_options(const BatchOptions& options, std::span<const std::int64_t> lengths) {
  require(options.tokens >= 1, "--batch-tokens {}: expected at least 1", options.tokens);
  require(options.length_multiple >= 1, "--length-multiple {}: expected at least 1", options.length_multiple);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require(fits(lengths[i], options),
            "--batch-tokens {}: text {} has {} tokens, {} when padded: raise --batch-tokens or set --max-length",
            options.tokens, i, lengths[i], rounded_up(lengths[i], options.length_multiple));
  }
}

/// Makes the batches bucket by bucket, the shortest first. `arrange` orders the examples of a bucket, together with the
/// rest of the bucket before it.
std::vector<PlannedBatch> deal(std::span<const std::int64_t> lengths, const BatchOptions& options,
                               const std::function<void(std::span<std::int64_t>)>& arrange) {
  check_options(options, lengths);
  std::vector<PlannedBatch> batches;
  if (lengths.empty()) return batches;
  const auto padded =
      padded_lengths(std::max<std::int64_t>(1, *std::ranges::max_element(lengths)), options.length_multiple);
  std::vector<std::vector<std::int64_t>> buckets(padded.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto bucket = std::lower_bound(padded.begin(), padded.end(), lengths[i]) - padded.begin();
    buckets[std::size_t(bucket)].push_back(std::int64_t(i));
  }
  std::vector<std::int64_t> pool;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    pool.insert(pool.end(), buckets[b].begin(), buckets[b].end());
    arrange(pool);
    const auto rows = std::size_t(rows_of(options, padded[b]));
    const bool last = b + 1 == buckets.size();
    std::size_t dealt = 0;
    while (pool.size() - dealt >= rows || (pool.size() > dealt && (last || (pool.size() - dealt) * 2 >= rows))) {
      const std::size_t end = std::min(dealt + rows, pool.size());
      batches.push_back({.length = padded[b],
                         .examples = {pool.begin() + std::ptrdiff_t(dealt), pool.begin() + std::ptrdiff_t(end)}});
      dealt = end;
    }
    pool.erase(pool.begin(), pool.begin() + std::ptrdiff_t(dealt));
  }
  return batches;
}

}  // namespace

bool fits(std::int64_t tokens, const BatchOptions& options) {
  return options.sentences > 0 || rounded_up(tokens, options.length_multiple) <= options.tokens;
}

std::int64_t padded_length(std::int64_t tokens, const BatchOptions& options) {
  std::int64_t length = options.length_multiple;
  while (length < tokens) length = next_padded_length(length, options.length_multiple);
  return length;
}

void BatchOptions::add_to(Cli& cli) {
  cli.option("--batch-tokens", tokens, "most tokens of a batch, with padding").range(1, 1e9);
  cli.rare("--batch-sentences", sentences, "texts of a batch, of any length; 0: as many as --batch-tokens allows")
      .range(0, 1e6);
  cli.rare("--length-multiple", length_multiple, "padded lengths are multiples of this many tokens").range(1, 65536);
  cli.rare("--accumulate", accumulate,
           "batches of an update, whose gradients are added; several processes share them out; default: one for each "
           "process")
      .range(1, 4096);
}

std::vector<PlannedBatch> training_batches(std::span<const std::int64_t> lengths, const BatchOptions& options,
                                           std::uint64_t seed, std::int64_t epoch) {
  SplitMix random(seed, std::uint64_t(epoch));
  auto batches = deal(lengths, options, [&](std::span<std::int64_t> pool) { random.shuffle(pool); });
  random.shuffle(std::span(batches));
  return batches;
}

std::vector<PlannedBatch> evaluation_batches(std::span<const std::int64_t> lengths, const BatchOptions& options) {
  return deal(lengths, options, [](std::span<std::int64_t>) {});
}

void EncodedPairs::append(std::vector<int> source_tokens, std::span<const int> target_tokens) {
  if (!has_labels) source_tokens.push_back(end_id);
  if (source_tokens.empty()) source_tokens.push_back(unknown_id);  // no row may be padding alone
  source.append(source_tokens);
  target.append(target_tokens);
  lengths.push_back(std::max(std::ssize(source_tokens), has_labels ? 0 : std::ssize(target_tokens) + 1));
}

namespace {

std::int64_t longest(const TokenStore& store, const PlannedBatch& plan) {
  std::int64_t length = 0;
  for (std::int64_t k : plan.examples) length = std::max(length, store.lengths()[std::size_t(k)]);
  return length;
}

}  // namespace

PairBatch fill(const PlannedBatch& plan, const EncodedPairs& pairs, const BatchOptions& options) {
  PairBatch batch;
  batch.rows = std::int64_t(plan.examples.size());
  batch.source_length = pairs.has_labels ? plan.length : padded_length(longest(pairs.source, plan), options);
  batch.target_length = pairs.has_labels ? 1 : padded_length(longest(pairs.target, plan) + 1, options);
  batch.indices = plan.examples;
  const auto S = std::size_t(batch.source_length), T = std::size_t(batch.target_length);
  batch.source.assign(plan.examples.size() * S, pad_id);
  batch.target_in.assign(plan.examples.size() * T, pad_id);
  batch.target_out = batch.target_in;
  for (std::size_t row = 0; row < plan.examples.size(); ++row) {
    const auto k = std::size_t(plan.examples[row]);
    const auto source = pairs.source[k], target = pairs.target[k];
    const auto in = batch.target_in.begin() + std::ptrdiff_t(row * T);
    const auto out = batch.target_out.begin() + std::ptrdiff_t(row * T);
    std::ranges::copy(source, batch.source.begin() + std::ptrdiff_t(row * S));
    batch.source_lengths.push_back(std::int32_t(source.size()));
    const auto end = std::ranges::copy(target, out).out;
    if (pairs.has_labels) continue;
    *in = begin_id;
    std::ranges::copy(target, in + 1);
    *end = end_id;
    batch.target_lengths.push_back(std::int32_t(target.size()) + 1);
    batch.target_tokens += batch.target_lengths.back();
  }
  return batch;
}

SequenceBatch PairBatch::read(bool has_source) const {
  SequenceBatch batch;
  if (has_source) {
    batch.source = source_tensor();
    batch.source_lengths = source_length_tensor();
  }
  batch.input = Tensor::from(target_in, {rows, target_length});
  batch.lengths = target_length_tensor();
  return batch;
}

PairBatches::PairBatches(const EncodedPairs& pairs, const BatchOptions& options, std::uint64_t seed)
    : pairs_(pairs), options_(options), seed_(seed) {
  require(pairs.size() > 0, "batches: no example");
  require(options.accumulate >= processes().size(),
          "--accumulate {}: the batches of an update are shared by {} processes; give each at least one",
          options.accumulate, processes().size());
  plan(0, 0);
  prepare();
}

PairBatch PairBatches::next() {
  PairBatch batch = prepared_.get();
  prepare();
  return batch;
}

void PairBatches::seek(std::int64_t epoch, std::int64_t position) {
  prepared_.wait();
  plan(epoch, position);
  number_ = 0;
  prepare();
}

void PairBatches::plan(std::int64_t epoch, std::int64_t position) {
  require(epoch >= 0, "batches: epoch {}, expected 0 or more", epoch);
  auto plans = training_batches(pairs_.lengths, options_, seed_, epoch);
  require(position >= 0 && position < std::ssize(plans), "batches: position {} of epoch {}, expected 0 to {}", position,
          epoch, plans.size() - 1);
  plans_ = std::move(plans);
  plan_epoch_ = epoch;
  plan_position_ = position;
}

/// Lets another thread fill the next batch of this process. Skips those of the others.
void PairBatches::prepare() {
  for (bool is_own = false; !is_own;) {
    if (number_ == 0) epoch_ = plan_epoch_, position_ = plan_position_;
    is_own = number_ % processes().size() == processes().rank();
    PlannedBatch plan_of_batch = plans_[std::size_t(plan_position_)];
    if (++plan_position_ == batches_per_epoch()) plan(plan_epoch_ + 1, 0);
    number_ = (number_ + 1) % options_.accumulate;
    if (is_own)
      prepared_ = std::async(std::launch::async, [this, plan_of_batch = std::move(plan_of_batch)] {
        return fill(plan_of_batch, pairs_, options_);
      });
  }
}

}  // namespace fovea
