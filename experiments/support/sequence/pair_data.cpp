#include "experiments/support/sequence/pair_data.h"

#include <algorithm>
#include <cstdio>

#include "experiments/support/data/classification.h"
#include "experiments/support/data/generated_options.h"
#include "experiments/support/data/text_overlap.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/same_data.h"
#include "tensor/error.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

/// Joins lines to blocks of at most `length` tokens, with </s> between lines. A longer line is a block of its own.
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
          "--batch-tokens {}: a text has {} tokens; raise --batch-tokens, or set --max-length or --max-words ('{}')",
          batches.tokens, pairs.lengths.back(), printable(shortened(text.target, shown)));
}

/// Adds the texts of a pair, with words that are in no vocabulary.
void add_texts(DataHash& hash, const TextPair& pair) {
  constexpr std::int64_t end_of_text = -1;
  for (const std::string* text : {&pair.source, &pair.target, &pair.alignment}) {
    hash.add(*text);
    hash.add(end_of_text);
  }
  for (const std::string& text : pair.more_targets) hash.add(text);
}

/// Encodes one part of the data and appends it to `to`. Also appends its texts to `texts`, unless that is null, and
/// adds them to `hash`.
void encode_part(EncodedPairs& to, std::vector<TextPair>* texts, DataHash& hash, TextOverlap& overlap,
                 const PairTokenizers& tokenizers, const PairSource& pairs, Part part, const PairDataOptions& options,
                 const BatchOptions& batches) {
  const std::int64_t max_length = options.text.text.max_length;
  Blocks blocks(to, options.block);
  pairs.visit(part, [&](const TextPair& pair) {
    overlap.add(part, pair);
    add_texts(hash, pair);
    std::vector<int> source, target = tokens_of(*tokenizers.target, pair.target, max_length);
    if (!pair.source.empty()) source = tokens_of(*tokenizers.source, pair.source, max_length);
    if (texts) texts->push_back(pair);
    if (options.block > 0) return blocks.add(target);
    to.append(std::move(source), target);
    require_fitting(to, pair, batches);
  });
  blocks.flush();
}

/// `hash` has the texts.
Json fingerprint_of(const EncodedPairs& pairs, DataHash hash) {
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

void print_line(const std::string& line) {
  if (!line.empty()) fmt::print("{}\n", line);
}

constexpr const char* data_file = "data.json";

}  // namespace

void PairDataOptions::add_to(Cli& cli, const std::string& description) {
  cli.group("Data");
  corpus.data = "generated";
  cli.option("--data", corpus.data, description).saved_as(lasting_data);
  cli.add(corpus);
  cli.group("Text");
  cli.add(text);
  if (has_source) return;
  cli.option("--block", block, "join lines to texts of about this many tokens; 0: each line is a text")
      .at_least(0)
      .unit("tokens")
      .rare();
}

std::vector<std::string> PairDataOptions::test_sets() const {
  if (corpus.test_set.empty()) return {"test"};
  std::vector<std::string> names;
  for (std::string_view name : split_columns(corpus.test_set, ',')) {
    require(!name.empty() && std::find(names.begin(), names.end(), name) == names.end(),
            "--test-set '{}': expected different names, separated by commas", corpus.test_set);
    names.emplace_back(name);
  }
  return names;
}

std::unique_ptr<PairSource> PairDataOptions::open(const std::string& test_set, bool trains) const {
  if (is_generated(corpus.data)) return generate(corpus.data);
  ParallelCorpusOptions one = corpus;
  if (!corpus.test_set.empty()) one.test_set = test_set;
  one.needs_training_set = trains;
  one.needs_source = has_source;
  return std::make_unique<ParallelCorpus>(one);
}

PairData::PairData(const PairDataOptions& options, const BatchOptions& batches, const RunDirectory& directory)
    : has_source_(options.has_source) {
  const std::vector<std::string> sets = options.test_sets();
  const std::unique_ptr<PairSource> pairs = options.open(sets.front(), true);
  description_ = pairs->description();
  print_line(description_);
  const bool is_known = std::filesystem::exists(directory.file(data_file));
  tokenizers = is_known ? load_tokenizers(directory.path()) : train_tokenizers(*pairs, options.text);
  print_line(tokenizers.description());
  TextOverlap overlap;
  encode_part(train, nullptr, train_texts_, overlap, tokenizers, *pairs, Part::train, options, batches);
  dev.name = "dev";
  encode_part(dev.pairs, &dev.texts, dev.hash, overlap, tokenizers, *pairs, Part::dev, options, batches);
  require(train.size() > 0, "{}: there is no text to train on", description_);
  require(dev.pairs.size() > 0, "{}: there is no text to select models on", description_);
  for (const std::string& set : sets) {
    const std::unique_ptr<PairSource> own = set == sets.front() ? nullptr : options.open(set, false);
    tests.push_back({set, {}, {}, {}});
    encode_part(tests.back().pairs, &tests.back().texts, tests.back().hash, overlap, tokenizers, own ? *own : *pairs,
                Part::test, options, batches);
    require(tests.back().pairs.size() > 0, "{}: there is no text to test on", own ? own->description() : description_);
    gold_alignments(tests.back().texts);  // throws for wrong links before the training
  }
  print_line(pairs->left_out());
  if (const std::string warning = overlap.warning(has_source_ ? "pairs" : "texts"); !warning.empty())
    print_line("warning: " + warning);
  std::string sizes;
  for (const PairSet& test : tests) sizes += fmt::format(", {} in {}", test.pairs.size(), test.name);
  print_line(fmt::format("{} pairs to train on, {} to select models{}", train.size(), dev.pairs.size(), sizes));
  std::fflush(stdout);
  is_known ? require_same_data(directory.file(data_file), fingerprint()) : save(directory.path());
}

PairData::PairData(const PairDataOptions& options, const BatchOptions& batches, PairTokenizers known, Part part,
                   bool prints)
    : tokenizers(std::move(known)), has_source_(options.has_source), part_(part) {
  for (const std::string& set : part == Part::test ? options.test_sets() : std::vector<std::string>{"test"}) {
    const std::unique_ptr<PairSource> pairs = options.open(set, false);
    description_ = pairs->description();
    tests.push_back({part == Part::test ? set : part == Part::dev ? "dev" : "train", {}, {}, {}});
    TextOverlap overlap;
    encode_part(tests.back().pairs, &tests.back().texts, tests.back().hash, overlap, tokenizers, *pairs, part, options,
                batches);
    require(tests.back().pairs.size() > 0, "{}: there is no text to test on", description_);
    if (!prints) continue;
    print_line(description_);
    print_line(pairs->left_out());
    print_line(fmt::format("{} pairs to test on", tests.back().pairs.size()));
  }
  std::fflush(stdout);
}

void PairData::save(const std::filesystem::path& directory) const {
  tokenizers.save(directory);
  save_json(directory / data_file, fingerprint());
}

void PairData::require_word_by_word() const {
  auto check = [&](const std::string& name, const EncodedPairs& pairs) {
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      const std::int64_t words = pairs.source.lengths()[k] - 1, tags = pairs.target.lengths()[k];  // without </s>
      require(words == tags, "{}: pair {} of {} has {} and {}; each word needs one tag", description_, k + 1, name,
              counted(static_cast<std::size_t>(words), "word"), counted(static_cast<std::size_t>(tags), "tag"));
    }
  };
  check("the training set", train);
  check("the development set", dev.pairs);
  for (const PairSet& test : tests) check("the test set " + test.name, test.pairs);
}

std::int64_t PairData::longest() const {
  std::int64_t longest = 0;
  auto look_at = [&](const EncodedPairs& pairs) {
    for (std::int64_t length : pairs.lengths) longest = std::max(longest, length);
  };
  look_at(train);
  look_at(dev.pairs);
  for (const PairSet& test : tests) look_at(test.pairs);
  return longest;
}

Json PairData::fingerprint() const {
  Json parts = Json::object();
  if (train.size() > 0)
    parts = {{"train", fingerprint_of(train, train_texts_)}, {"dev", fingerprint_of(dev.pairs, dev.hash)}};
  for (const PairSet& test : tests)
    parts[part_ != Part::test || test.name == "test" ? test.name : "test set " + test.name] =
        fingerprint_of(test.pairs, test.hash);
  return parts;
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
  bool any_first = false;
  for (const TextPair& pair : pairs) {
    const auto sources = std::ssize(split_words(pair.source)), targets = std::ssize(split_words(pair.target));
    with_flag(fmt::format("the alignment of pair {}", all.size() + 1), [&] {
      all.push_back(parse_alignment(pair.alignment));
      for (const Link& link : all.back().possible)
        require(link.source < sources && link.target < targets,
                "'{}-{}': the texts have {} and {} words, counted from 0", link.source, link.target, sources, targets);
    });
    any_first = any_first || has_first_word(all.back());
  }
  if (!any_first) warn("the gold alignments have no link of a word 0: are they counted from 1? They must be from 0");
  return all;
}

}  // namespace fovea
