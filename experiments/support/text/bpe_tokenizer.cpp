#include "experiments/support/text/bpe_tokenizer.h"

#include <limits>

#include "experiments/support/program/json_file.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr const char* codes_file = "bpe_codes.txt";

std::vector<std::string_view> words_between_spaces(std::string_view text) {
  std::vector<std::string_view> words = split_columns(text, ' ');
  std::erase_if(words, [](std::string_view word) { return split_words(word).empty(); });
  return words;
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeCodes codes, std::unique_ptr<WordTokenizer> vocabulary, bool lower_case)
    : codes_(std::move(codes)), vocabulary_(std::move(vocabulary)), lower_case_(lower_case) {}

std::unique_ptr<BpeTokenizer> BpeTokenizer::train(const TextOptions& options, std::span<const std::string_view> texts) {
  require(!options.codes.empty(), "--units codes: --codes, the file that subword-nmt learnt, is missing");
  BpeCodes codes(options.codes);
  WordCounts words, units;
  for (const std::string_view text : texts) {
    const std::string cased = options.lower_case ? lower_case(text) : std::string(text);
    for (const std::string_view word : words_between_spaces(cased)) words.add(word);
  }
  for (const auto& [word, count] : words.counts()) {
    const std::string split = codes.apply(word);
    for (const std::string_view unit : split_words(split)) units.add(unit, count);
  }
  require(!units.counts().empty(), "vocabulary: {} training texts without a word", texts.size());
  const std::int64_t size = options.vocabulary_size;
  require(size == 0 || size > special_tokens, "--vocabulary-size {}: expected more than the {} special tokens", size,
          special_tokens);
  const std::int64_t most = size == 0 ? std::numeric_limits<std::int64_t>::max() : size - special_tokens;
  return std::make_unique<BpeTokenizer>(
      std::move(codes), std::make_unique<WordTokenizer>(units.most_frequent(1, most), false), options.lower_case);
}

std::vector<int> BpeTokenizer::encode(std::string_view text) const {
  const std::string cased = lower_case_ ? lower_case(text) : std::string(text);
  return memo_.encode(words_between_spaces(cased),
                      [&](std::string_view word) { return vocabulary_->encode(codes_.apply(word)); });
}

std::string BpeTokenizer::decode(std::span<const int> tokens) const { return join_units(vocabulary_->decode(tokens)); }

std::string BpeTokenizer::description() const {
  return fmt::format("{} units of {} byte-pair codes{}", size(), codes_.merges(), lower_case_ ? " in lower case" : "");
}

void BpeTokenizer::save(const fs::path& directory) const {
  AtomicFile file(directory / codes_file);
  for (const std::string& line : codes_.lines()) file.write(line + "\n");
  file.commit();
  vocabulary_->save(directory);
  save_json(directory / "tokenizer.json", {{"units", "codes"}, {"size", size()}, {"lower_case", lower_case_}});
}

std::unique_ptr<BpeTokenizer> BpeTokenizer::load(const fs::path& directory, std::int64_t size, bool lower_case) {
  return std::make_unique<BpeTokenizer>(BpeCodes(directory / codes_file), WordTokenizer::load(directory, size, false),
                                        lower_case);
}

}  // namespace fovea
