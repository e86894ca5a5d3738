#include "experiments/support/training/batches.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "experiments/support/data/split_mix.h"
#include "experiments/support/program/program.h"
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
  const auto padded = padded_lengths(std::max<std::int64_t>(1, *std::max_element(lengths.begin(), lengths.end())),
                                     options.length_multiple);
  std::vector<std::vector<std::int64_t>> buckets(padded.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto bucket = std::lower_bound(padded.begin(), padded.end(), lengths[i]) - padded.begin();
    buckets[static_cast<std::size_t>(bucket)].push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::int64_t> pool;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    pool.insert(pool.end(), buckets[b].begin(), buckets[b].end());
    arrange(pool);
    const auto rows = static_cast<std::size_t>(rows_of(options, padded[b]));
    const bool last = b + 1 == buckets.size();
    std::size_t dealt = 0;
    while (pool.size() - dealt >= rows || (pool.size() > dealt && (last || (pool.size() - dealt) * 2 >= rows))) {
      const std::size_t end = std::min(dealt + rows, pool.size());
      batches.push_back({.length = padded[b],
                         .examples = {pool.begin() + static_cast<std::ptrdiff_t>(dealt),
                                      pool.begin() + static_cast<std::ptrdiff_t>(end)}});
      dealt = end;
    }
    pool.erase(pool.begin(), pool.begin() + static_cast<std::ptrdiff_t>(dealt));
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

void add_options(Cli& cli, BatchOptions& options) {
  cli.option("--batch-tokens", options.tokens, "most tokens of a batch, with padding").range(1, 1e9);
  cli.option("--batch-sentences", options.sentences,
             "texts of a batch, of any length; 0: as many as --batch-tokens allows")
      .range(0, 1e6)
      .rare();
  cli.option("--length-multiple", options.length_multiple, "padded lengths are multiples of this")
      .range(1, 65536)
      .unit("tokens")
      .rare();
  cli.option("--accumulate", options.accumulate,
             "batches of an update, whose gradients are added; several processes share them out; default: one for each "
             "process")
      .range(1, 1e6)
      .rare();
}

std::vector<PlannedBatch> training_batches(std::span<const std::int64_t> lengths, const BatchOptions& options,
                                           std::uint64_t seed, std::int64_t epoch) {
  SplitMix random(seed, static_cast<std::uint64_t>(epoch));
  auto batches = deal(lengths, options, [&](std::span<std::int64_t> pool) { random.shuffle(pool); });
  random.shuffle(std::span(batches));
  return batches;
}

std::vector<PlannedBatch> evaluation_batches(std::span<const std::int64_t> lengths, const BatchOptions& options) {
  return deal(lengths, options, [](std::span<std::int64_t>) {});
}

EncodedExamples encode(std::span<const Example> examples, const Tokenizer& tokenizer, std::int64_t max_length) {
  EncodedExamples encoded;
  encoded.tokens.reserve(examples.size());
  for (const Example& example : examples) {
    std::vector<int> tokens = tokenizer.encode(example.text);
    if (max_length > 0 && static_cast<std::int64_t>(tokens.size()) > max_length) {
      tokens.resize(static_cast<std::size_t>(max_length));
    }
    if (tokens.empty()) tokens.push_back(unknown_id);
    encoded.lengths.push_back(static_cast<std::int64_t>(tokens.size()));
    encoded.tokens.push_back(std::move(tokens));
    encoded.labels.push_back(example.label);
    encoded.groups.push_back(example.group);
  }
  return encoded;
}

TextBatch fill(const PlannedBatch& plan, const EncodedExamples& examples) {
  TextBatch batch;
  batch.rows = static_cast<std::int64_t>(plan.examples.size());
  batch.length = plan.length;
  batch.tokens.assign(static_cast<std::size_t>(batch.rows * batch.length), pad_id);
  batch.indices = plan.examples;
  for (std::size_t row = 0; row < plan.examples.size(); ++row) {
    const auto i = static_cast<std::size_t>(plan.examples[row]);
    const std::vector<int>& tokens = examples.tokens.at(i);
    std::copy(tokens.begin(), tokens.end(), batch.tokens.begin() + static_cast<std::ptrdiff_t>(row) * batch.length);
    batch.lengths.push_back(static_cast<std::int32_t>(tokens.size()));
    batch.labels.push_back(examples.labels[i]);
  }
  return batch;
}

BatchPlans::BatchPlans(std::span<const std::int64_t> lengths, const BatchOptions& options, std::uint64_t seed)
    : lengths_(lengths), options_(options), seed_(seed) {
  require(!lengths.empty(), "batches: no example");
  seek(0, 0);
}

PlannedBatch BatchPlans::next() {
  PlannedBatch batch = plans_[static_cast<std::size_t>(position_)];
  if (++position_ == batches_per_epoch()) seek(epoch_ + 1, 0);
  return batch;
}

void BatchPlans::seek(std::int64_t epoch, std::int64_t position) {
  require(epoch >= 0, "batches: epoch {}, expected 0 or more", epoch);
  auto plan = training_batches(lengths_, options_, seed_, epoch);
  require(position >= 0 && position < static_cast<std::int64_t>(plan.size()),
          "batches: position {} of epoch {}, expected 0 to {}", position, epoch, plan.size() - 1);
  plans_ = std::move(plan);
  epoch_ = epoch;
  position_ = position;
}

}  // namespace fovea
