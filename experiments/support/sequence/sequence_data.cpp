#include "experiments/support/sequence/sequence_data.h"

#include <algorithm>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/same_data.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// Collects lines until they make a block; </s> stands between them.
class Blocks {
 public:
  Blocks(EncodedPairs& to, std::int64_t length) : to_(to), length_(static_cast<std::size_t>(length)) {}

  void add(const std::vector<int>& line) {
    if (!block_.empty() && block_.size() + 1 + line.size() > length_) flush();
    if (!block_.empty()) block_.push_back(end_id);
    block_.insert(block_.end(), line.begin(), line.end());
  }
  void flush() {
    if (!block_.empty()) to_.append({}, block_);
    block_.clear();
  }

 private:
  EncodedPairs& to_;
  std::size_t length_;
  std::vector<int> block_;
};

void require_fitting(const EncodedPairs& pairs, const TextPair& text, const BatchOptions& batches) {
  constexpr std::size_t shown = 40;
  require(fits(pairs.lengths.back(), batches),
          "--batch-tokens {}: a text has {} tokens: raise --batch-tokens, or set --max-length or --max-words ('{}')",
          batches.tokens, pairs.lengths.back(), printable(shortened(text.target, shown)));
}

void encode_part(EncodedPairs& to, std::vector<TextPair>* texts, const PairTokenizers& tokenizers,
                 const PairSource& pairs, Part part, const SequenceLimits& limits, const BatchOptions& batches) {
  Blocks blocks(to, limits.block);
  pairs.visit(part, [&](const TextPair& pair) {
    std::vector<int> source, target = tokens_of(*tokenizers.target, pair.target, limits.max_length);
    if (!pair.source.empty()) source = tokens_of(*tokenizers.source, pair.source, limits.max_length);
    if (texts) texts->push_back(pair);
    if (limits.block > 0) return blocks.add(target);
    to.append(std::move(source), target);
    require_fitting(to, pair, batches);
  });
  blocks.flush();
}

Json fingerprint_of(const EncodedPairs& pairs) {
  DataHash hash;
  std::vector<std::int32_t> tokens;
  for (const TokenStore* side : {&pairs.source, &pairs.target}) {
    for (std::size_t k = 0; k < side->size(); ++k) {
      tokens.resize(static_cast<std::size_t>(side->lengths()[k]));
      side->read(k, tokens);
      hash.add(side->lengths()[k]);
      for (std::int32_t token : tokens) hash.add(std::int64_t{token});
    }
  }
  return hash.part(pairs.size());
}

}  // namespace

Json SequenceData::fingerprint() const {
  return {{"train", fingerprint_of(train)}, {"dev", fingerprint_of(dev)}, {"test", fingerprint_of(test)}};
}

std::vector<int> tokens_of(const Tokenizer& tokenizer, const std::string& text, std::int64_t max_length) {
  std::vector<int> tokens = tokenizer.encode(text);
  if (max_length > 0 && static_cast<std::int64_t>(tokens.size()) > max_length)
    tokens.resize(static_cast<std::size_t>(max_length));
  return tokens;
}

std::vector<GoldAlignment> gold_alignments(const std::vector<TextPair>& pairs) {
  std::vector<GoldAlignment> all;
  if (std::all_of(pairs.begin(), pairs.end(), [](const TextPair& pair) { return pair.alignment.empty(); })) return all;
  for (const TextPair& pair : pairs) {
    const auto sources = std::ssize(split_words(pair.source)), targets = std::ssize(split_words(pair.target));
    with_flag(fmt::format("the alignment of pair {}", all.size() + 1), [&] {
      all.push_back(parse_alignment(pair.alignment));
      for (const Link& link : all.back().possible)
        require(link.source < sources && link.target < targets,
                "'{}-{}': the texts have {} and {} words, counted from 0", link.source, link.target, sources, targets);
    });
  }
  return all;
}

void encode_parts(SequenceData& data, const PairSource& pairs, const SequenceLimits& limits,
                  const BatchOptions& batches) {
  encode_part(data.train, nullptr, data.tokenizers, pairs, Part::train, limits, batches);
  encode_part(data.dev, &data.dev_texts, data.tokenizers, pairs, Part::dev, limits, batches);
  encode_part(data.test, &data.test_texts, data.tokenizers, pairs, Part::test, limits, batches);
  require(data.train.size() > 0, "{}: there is no text to train on", pairs.description());
  require(data.dev.size() > 0 && data.test.size() > 0, "{}: there is no text to {} on", pairs.description(),
          data.dev.size() > 0 ? "test" : "select models");
  gold_alignments(data.test_texts);  // what is wrong with them is said before the training
}

void encode_as_test(SequenceData& data, const PairSource& pairs, Part part, const SequenceLimits& limits,
                    const BatchOptions& batches) {
  encode_part(data.test, &data.test_texts, data.tokenizers, pairs, part, limits, batches);
  require(data.test.size() > 0, "{}: there is no text to test on", pairs.description());
}

}  // namespace fovea
