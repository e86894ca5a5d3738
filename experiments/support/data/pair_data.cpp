#include "experiments/support/data/pair_data.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <fmt/format.h>

#include "experiments/support/data/generated.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/text/utf8.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr const char* data_file = "data.json";
constexpr std::int64_t end_of_text = -1;  // in hashes

/// Joins lines to blocks of at most `length` tokens, with </s> between lines. A longer line is a block of its own.
class Blocks {
 public:
  Blocks(EncodedPairs& to, std::int64_t length) : to_(to), length_(std::size_t(length)) {}

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

/// Adds the tokens of text k.
void add_tokens(DataHash& hash, const TokenStore& store, std::size_t k) {
  hash.add(store.lengths()[k]);
  for (const std::int32_t token : store[k]) hash.add(std::int64_t{token});
}

/// A key that is equal for pairs that count as the same: source and target, but of labelled texts the text without its
/// label. Empty for texts without a source that have less than 40 characters, because headings and names of speakers
/// occur everywhere.
std::string key_of_pair(const TextPair& pair, bool has_label) {
  constexpr std::int64_t least_characters = 40;
  if (has_label) return pair.source;
  if (!pair.source.empty()) return pair.source + '\n' + pair.target;
  return character_count(pair.target) < least_characters ? "" : pair.target;
}

/// `hash` has the texts.
Json fingerprint_of(const EncodedPairs& pairs, DataHash hash) {
  for (const TokenStore* side : {&pairs.source, &pairs.target})
    for (std::size_t k = 0; k < side->size() && !pairs.has_labels; ++k) add_tokens(hash, *side, k);
  return hash.part(pairs.size());
}

void print_line(const std::string& line) {
  if (!line.empty()) fmt::print("{}\n", line);
}

/// Reads and encodes the sets of a source.
class SetReader {
 public:
  SetReader(const PairSource& source, const TextOptions& options)
      : source_(source), options_(options), classes_(source.classes()) {}

  void read(Part part, std::size_t test, PairSet& set, const PairTokenizers& tokenizers, bool keeps_texts = true) {
    const std::int64_t max_length = options_.max_length;
    const bool has_labels = set.pairs.has_labels = !classes_.empty();
    Blocks blocks(set.pairs, options_.block);
    source_.visit(
        part,
        [&](const TextPair& pair) {
          ++texts_[std::size_t(part)];
          if (const std::string text = key_of_pair(pair, has_labels); !text.empty())
            hashes_[std::size_t(part)].push_back(stable_hash(text));
          has_source = has_source || !pair.source.empty();
          if (keeps_texts) set.texts.push_back(pair);
          std::vector<int> source;
          if (!pair.source.empty()) source = tokens_of(*tokenizers.source, pair.source, max_length);
          if (has_labels) return add_labelled(set, pair, std::move(source));
          for (const std::string* text : {&pair.source, &pair.target, &pair.alignment})
            set.hash.add(*text), set.hash.add(end_of_text);
          for (const std::string& text : pair.more_targets) set.hash.add(text);
          const std::vector<int> target = tokens_of(*tokenizers.target, pair.target, max_length);
          options_.block > 0 ? blocks.add(target) : set.pairs.append(std::move(source), target);
        },
        test);
    blocks.flush();
    constexpr const char* uses[] = {"train", "select models", "test"};
    require(set.pairs.size() > 0, "{}: there is no text to {} on", source_.description(), uses[std::size_t(part)]);
  }

  std::string noun() const { return has_source && classes_.empty() ? "pairs" : "texts"; }

  /// "warning: 112 of 500 test texts and 3 of 50 development texts are also training texts": a test then measures what
  /// was learnt by heart. A part in which less than 1 % are is left out; empty where none is left.
  std::string warning() {
    std::ranges::sort(hashes_[0]);
    std::vector<std::string> shares;
    for (const auto& [k, name] : {std::pair(2u, "test"), std::pair(1u, "development")}) {
      const auto shared = std::ranges::count_if(
          hashes_[k], [&](std::uint64_t hash) { return std::ranges::binary_search(hashes_[0], hash); });
      if (shared > 0 && shared * 100 >= texts_[k])
        shares.push_back(fmt::format("{} of {} {} {}", shared, texts_[k], name, noun()));
    }
    return shares.empty() ? "" : fmt::format("warning: {} are also training {}", listed(shares, " and "), noun());
  }

  bool has_source = false;  ///< whether any text had one

 private:
  void add_labelled(PairSet& set, const TextPair& pair, std::vector<int> source) const {
    const auto label = std::ranges::find(classes_, pair.target) - classes_.begin();
    set.pairs.append(std::move(source), std::vector<int>{int(label)});
    set.hash.add(pair.source);
    add_tokens(set.hash, set.pairs.source, set.pairs.size() - 1);
    set.hash.add(label);
    set.hash.add(std::int64_t{pair.group});
  }

  const PairSource& source_;
  const TextOptions& options_;
  std::vector<std::string> classes_;
  std::array<std::vector<std::uint64_t>, 3> hashes_;  ///< by part, eight bytes a text
  std::array<std::int64_t, 3> texts_{};
};

}  // namespace

void PairDataOptions::add_to(Cli& cli, const std::string& description) {
  cli.group("Data");
  corpus.data = "generated";
  cli.option("--data", corpus.data, description).saved_as(lasting_data);
  cli.add(corpus);
  cli.group("Text");
  text.add_to_pairs(cli);
  if (has_source) return;
  cli.rare("--block", text.block, "join lines to texts of about this many tokens; 0: each line is a text").at_least(0);
}

std::unique_ptr<PairSource> PairDataOptions::open(bool trains) const {
  if (is_generated(corpus.data)) {
    std::vector<std::string> unused;
    for (const auto& [flag, value] : {std::pair("--source", corpus.source),
                                      {"--target", corpus.target},
                                      {"--columns", corpus.columns},
                                      {"--train-set", corpus.train_set},
                                      {"--dev-set", corpus.dev_set},
                                      {"--test-set", corpus.test_set}})
      if (!value.empty()) unused.emplace_back(flag);
    warn_without_effect(unused, data_without_files);
    return generate(corpus.data);
  }
  ParallelCorpusOptions options = corpus;
  options.needs_training_set = trains;
  options.needs_source = has_source;
  return std::make_unique<ParallelCorpus>(options);
}

PairData::PairData(const PairSource& source, const TextOptions& options, const RunDirectory& directory)
    : classes(source.classes()), group(source.group()), description_(source.description()) {
  print_line(description_);
  const bool is_known = std::filesystem::exists(directory.file(data_file));
  tokenizers = is_known ? load_tokenizers(directory.path()) : train_tokenizers(source, options);
  print_line(tokenizers.description());
  SetReader reader(source, options);
  PairSet training;
  reader.read(Part::train, 0, training, tokenizers, false);
  train = std::move(training.pairs), train_hash_ = training.hash;
  reader.read(Part::dev, 0, dev, tokenizers);
  std::string sizes;
  for (const std::string& name : source.tests()) {
    PairSet& test = tests.emplace_back(PairSet{name});
    reader.read(Part::test, tests.size() - 1, test, tokenizers);
    sizes += fmt::format(", {} in {}", test.pairs.size(), name);
  }
  has_source_ = reader.has_source;
  print_line(source.left_out());
  print_line(reader.warning());
  print_line(
      fmt::format("{} {} to train on, {} to select models{}", train.size(), reader.noun(), dev.pairs.size(), sizes));
  std::fflush(stdout);
  const std::string changes = is_known ? data_changes(directory.path(), fingerprint()) : "";
  require(changes.empty(), "{}: the data have changed since the run began, so that it cannot continue: {}",
          directory.path().string(), changes);
  if (!is_known) save(directory.path());
}

PairData::PairData(const PairSource& source, const TextOptions& options, PairTokenizers known, Part part, bool prints)
    : tokenizers(std::move(known)),
      classes(source.classes()),
      group(source.group()),
      part_(part),
      description_(source.description()) {
  if (prints) print_line(description_);
  SetReader reader(source, options);
  for (const std::string& name : part == Part::test ? source.tests() : std::vector<std::string>{name_of(part)}) {
    PairSet& test = tests.emplace_back(PairSet{name});
    reader.read(part, tests.size() - 1, test, tokenizers);
    if (prints) print_line(fmt::format("{} {} to test on", test.pairs.size(), reader.noun()));
  }
  has_source_ = reader.has_source;
  if (prints) print_line(source.left_out());
  std::fflush(stdout);
}

void PairData::save(const std::filesystem::path& directory) const {
  tokenizers.save(directory);
  save_json(directory / data_file, fingerprint());
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

void PairData::require_fitting(const BatchOptions& batches) const {
  require(fits(longest(), batches),
          "--batch-tokens {}: the longest text has {} tokens; raise --batch-tokens, or cut texts with --max-length",
          batches.tokens, longest());
}

Json PairData::fingerprint() const {
  Json parts = Json::object();
  if (train.size() > 0)
    parts = {{"train", fingerprint_of(train, train_hash_)}, {"dev", fingerprint_of(dev.pairs, dev.hash)}};
  for (const PairSet& test : tests)
    parts[part_ != Part::test || test.name == "test" ? test.name : "test set " + test.name] =
        fingerprint_of(test.pairs, test.hash);
  if (!classes.empty()) parts["classes"] = classes;
  return parts;
}

Json DataHash::part(std::size_t examples) const {
  return {{"examples", examples}, {"hash", fmt::format("{:016x}", hash_)}};
}

std::string data_changes(const std::filesystem::path& run, const Json& now) {
  const std::string file = (run / data_file).string();
  const Json before = load_json(file);
  std::vector<std::string> changes;
  reading_json(file, [&] {
    for (const auto& [part, of_part] : now.items()) {
      if (!of_part.is_object()) continue;  // the classes
      require(before.contains(part), "{}: has no part '{}'", file, part);
      const std::int64_t had = before.at(part).at("examples"), has = of_part.at("examples");
      if (had != has)
        changes.push_back(fmt::format("{} had {} examples and has {}", part, had, has));
      else if (before.at(part).at("hash") != of_part.at("hash"))
        changes.push_back(fmt::format("{} has different texts or labels", part));
    }
    const Json classes = before.value("classes", Json()), own = now.value("classes", Json());
    if (classes != own)
      changes.push_back(fmt::format("the classes were {} and are {}", text_of(classes), text_of(own)));
  });
  return fmt::format("{}", fmt::join(changes, "; "));
}

std::vector<std::string> classes_of(const std::filesystem::path& run) {
  std::vector<std::string> classes;
  if (is_hugging_face(run)) return hugging_face_classes(run);
  reading_json((run / data_file).string(), [&] { classes = load_json(run / data_file).at("classes"); });
  return classes;
}

}  // namespace fovea
