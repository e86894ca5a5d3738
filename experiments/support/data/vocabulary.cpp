#include "experiments/support/data/vocabulary.h"

#include <algorithm>

#include <fmt/core.h>

#include "experiments/support/data/hugging_face_vocabulary.h"
#include "experiments/support/data/text_pair.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/files.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

struct UnitsName {
  Units units;
  const char *name, *description, *file;
};
constexpr UnitsName all_units[] = {{Units::words, "words", "words", "vocabulary.txt"},
                                   {Units::unigram, "unigram", "unigram sub-words", "sentencepiece.model"},
                                   {Units::bpe, "bpe", "BPE sub-words", "sentencepiece.model"},
                                   {Units::characters, "characters", "characters", "sentencepiece.model"},
                                   {Units::wordpiece, "wordpiece", "WordPiece sub-words", "tokens.json"},
                                   {Units::byte_bpe, "byte-bpe", "BPE sub-words of bytes", "tokens.json"}};

bool can_be_trained(Units units) { return units < Units::wordpiece; }

std::unique_ptr<Tokenizer> tokenizer_of(Units units, const std::string& content, bool lower_case,
                                        const std::string& file) {
  if (units == Units::words) return word_tokenizer(content, lower_case, file);
  if (can_be_trained(units)) return subword_tokenizer(content, units, lower_case, file);
  return trained_tokenizer(units, lower_case, content, file);
}

}  // namespace

const char* name_of(Units units) { return all_units[std::size_t(units)].name; }

void TextOptions::add_to(Cli& cli) {
  std::vector<std::pair<std::string, Units>> choices;
  for (const UnitsName& each : all_units)
    if (can_be_trained(each.units)) choices.emplace_back(each.name, each.units);
  cli.choice("--units", units, choices, "tokens; sub-words and characters come from SentencePiece");
  cli.option("--vocabulary-size", vocabulary_size,
             "the most tokens, or 0 for the usual number; with the 4 special ones; the usual number is 30000 words, "
             "8000 sub-words (or as many as there are), or all characters")
      .at_least(0);
  cli.rare("--min-count", min_count, "the least count of a word in the training texts; rarer words are <unk>")
      .at_least(1);
  cli.rare("--lower-case", lower_case, "turn all text to lower case");
  cli.rare("--max-length", max_length, "the most tokens of a text, from its beginning; 0: all").at_least(0);
  cli.rare("--vocabulary", vocabulary,
           "use the vocabulary of this run, or of a model as Hugging Face publishes it, instead of learning one")
      .saved_as(lasting_path);
}

void TextOptions::add_to_pairs(Cli& cli) {
  add_to(cli);
  cli.rare("--joint-vocabulary", joint, "one vocabulary for source and target");
  cli.rare("--target-vocabulary-size", target_vocabulary_size, "the target's vocabulary size; 0: as --vocabulary-size")
      .at_least(0);
}

std::string Tokenizer::description() const {
  return fmt::format("{} {}{}", size(), all_units[std::size_t(units_)].description,
                     lower_case_ ? " in lower case" : "");
}

void Tokenizer::save(const fs::path& directory) const {
  const std::string bytes = content();
  write_file_atomically(directory / all_units[std::size_t(units_)].file, bytes);
  save_json(directory / "tokenizer.json",
            {{"units", name_of(units_)}, {"size", size()}, {"lower_case", lower_case_}, {"crc32", checksum_of(bytes)}});
}

std::string Tokenizer::cased(std::string_view text) const { return lower_case_ ? lower_case(text) : std::string(text); }

void Tokenizer::require_token(int id) const {
  require(id >= 0 && id < size(), "vocabulary: no token {}, there are {}", id, size());
}

std::unique_ptr<Tokenizer> train_tokenizer(const TextOptions& options, std::span<const std::string_view> texts) {
  return options.units == Units::words ? train_words(options, texts) : train_subwords(options, texts);
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& directory) {
  if (is_hugging_face(directory)) return hugging_face_vocabulary(directory).tokenizer;
  const fs::path path = directory / "tokenizer.json";
  std::error_code ignored;
  require(fs::exists(path, ignored), "{}: there is no tokenizer.json (is it the directory of a run?)",
          directory.string());
  const Json json = load_json(path);
  std::string units, sum;
  std::int64_t size = 0;
  bool lower_case = false;
  reading_json(path.string(), [&] {
    units = json.at("units"), sum = json.at("crc32"), size = json.at("size"), lower_case = json.at("lower_case");
  });
  const auto* known = std::ranges::find(all_units, units, &UnitsName::name);
  std::vector<std::string> names;
  for (const UnitsName& each : all_units) names.emplace_back(each.name);
  require(known != std::end(all_units), "{}: units is '{}', expected {}", path.string(), units, alternatives(names));
  const std::string file = (directory / known->file).string(), bytes = contents_of_file(file);
  const std::string own = checksum_of(bytes);
  require(sum == own, "{}: damaged: {} bytes with CRC-32 {}, tokenizer.json says {}", file, bytes.size(), own, sum);
  auto tokenizer = tokenizer_of(known->units, bytes, lower_case, file);
  require(tokenizer->size() == size, "{}: {} tokens, tokenizer.json says {}", file, tokenizer->size(), size);
  return tokenizer;
}

void note_unknown_words(const std::string& flag, std::string_view text, const Tokenizer& tokenizer) {
  std::vector<std::string> unknown;
  for (std::string_view word : split_words(text)) {
    const std::vector<int> tokens = tokenizer.encode(word);
    const bool is_new = std::ranges::find(unknown, printable(word)) == unknown.end();
    if (std::ranges::count(tokens, unknown_id) > 0 && is_new) unknown.push_back(printable(word));
  }
  if (!unknown.empty())
    fmt::print(stderr, "{}: read as {}, because the run's vocabulary lacks them: {}\n", flag,
               tokenizer.token(unknown_id), first_few(unknown));
}

std::vector<int> tokens_of(const Tokenizer& tokenizer, std::string_view text, std::int64_t max_length) {
  std::vector<int> tokens = tokenizer.encode(text);
  if (max_length == 0 || std::ssize(tokens) <= max_length) return tokens;
  const bool has_end = tokens.back() == end_id;
  tokens.resize(std::size_t(max_length));
  if (has_end) tokens.back() = end_id;
  return tokens;
}

// ---- Pairs of texts

namespace {

constexpr std::size_t most_bytes_of_a_side = 64'000'000;

std::vector<std::string_view> views_of(const TextSample& sample) {
  std::vector<std::string_view> views;
  for (const std::string& text : sample.texts())
    if (!text.empty()) views.push_back(text);
  return views;
}

}  // namespace

void TextSample::add(const std::string& text) {
  if (seen_++ % stride_ != 0) return;
  texts_.push_back(text);
  bytes_ += text.size();
  while (bytes_ > most_bytes_ && texts_.size() > 1) {
    stride_ *= 2;
    std::size_t place = 0;
    std::erase_if(texts_, [&](const std::string&) { return place++ % 2 == 1; });
    bytes_ = 0;
    for (const std::string& kept : texts_) bytes_ += kept.size();
  }
}

std::string PairTokenizers::description() const {
  if (joint()) return source->description();
  return fmt::format("source {}, target {}", source->description(), target->description());
}

void PairTokenizers::save(const fs::path& directory) const {
  if (joint()) return source->save(directory);
  for (const char* side : {"source", "target"}) fs::create_directories(directory / side);
  source->save(directory / "source");
  target->save(directory / "target");
}

namespace {

/// Warns of flags that ask for other tokens than those of --vocabulary.
void warn_of_other_tokens(const PairTokenizers& known, const TextOptions& options) {
  const TextOptions usual;
  const Tokenizer &source = *known.source, &target = *known.target;
  std::vector<std::string> flags;
  const auto look_at = [&](bool is_given, bool is_other, const char* flag) {
    if (is_given && is_other) flags.emplace_back(flag);
  };
  look_at(options.units != usual.units, source.units() != options.units || target.units() != options.units, "--units");
  look_at(options.lower_case, !source.is_lower_case() || !target.is_lower_case(), "--lower-case");
  look_at(options.vocabulary_size != 0, source.size() != options.vocabulary_size, "--vocabulary-size");
  look_at(options.target_vocabulary_size != 0, target.size() != options.target_vocabulary_size,
          "--target-vocabulary-size");
  look_at(options.min_count != usual.min_count, true, "--min-count");
  warn_without_effect(flags, fmt::format("--vocabulary {} has {}", options.vocabulary.string(), known.description()));
}

}  // namespace

PairTokenizers train_tokenizers(const PairSource& pairs, const TextOptions& options) {
  if (!options.vocabulary.empty()) {
    PairTokenizers known;
    with_flag("--vocabulary", [&] { known = load_tokenizers(options.vocabulary); });
    warn_of_other_tokens(known, options);
    return known;
  }
  TextSample sources(most_bytes_of_a_side), targets(most_bytes_of_a_side);
  const bool is_labelled = !pairs.classes().empty();
  bool has_source = false;
  pairs.visit(Part::train, [&](const TextPair& pair) {
    has_source = has_source || !pair.source.empty();
    sources.add(pair.source);
    if (!is_labelled) targets.add(pair.target);
  });
  require(!sources.texts().empty(), "{}: there is no text to train on", pairs.description());
  const std::vector<std::string_view> of_source = views_of(sources), of_target = views_of(targets);
  if (options.joint || !has_source) {
    require(options.target_vocabulary_size == 0, "--target-vocabulary-size is for --no-joint-vocabulary");
    std::vector<std::string_view> all = of_source;
    all.insert(all.end(), of_target.begin(), of_target.end());
    const std::shared_ptr<const Tokenizer> both = train_tokenizer(options, all);
    return {.source = both, .target = both};
  }
  TextOptions target = options;
  if (options.target_vocabulary_size != 0) target.vocabulary_size = options.target_vocabulary_size;
  return {.source = train_tokenizer(options, of_source), .target = train_tokenizer(target, of_target)};
}

PairTokenizers load_tokenizers(const fs::path& directory) {
  std::error_code ignored;
  if (fs::exists(directory / "source" / "tokenizer.json", ignored)) {
    return {.source = load_tokenizer(directory / "source"), .target = load_tokenizer(directory / "target")};
  }
  const std::shared_ptr<const Tokenizer> both = load_tokenizer(directory);
  return {.source = both, .target = both};
}

void require_same_tokens(const fs::path& run, const PairTokenizers& ours) {
  const PairTokenizers theirs = load_tokenizers(run);
  for (auto side : {&PairTokenizers::source, &PairTokenizers::target}) {
    const Tokenizer &a = *(theirs.*side), &b = *(ours.*side);
    bool same = a.size() == b.size();
    for (int id = 0; same && id < a.size(); ++id) same = a.token(id) == b.token(id);
    require(same, "--init {0}: its vocabulary ({1}) differs from that of these data ({2}); --vocabulary {0} takes it",
            run.string(), theirs.description(), ours.description());
  }
}

}  // namespace fovea
