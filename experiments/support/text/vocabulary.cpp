#include "experiments/support/text/vocabulary.h"

#include <algorithm>

#include <fmt/core.h>
#include <zlib.h>

#include "experiments/support/program/growing_file.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/program/program.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/bpe_tokenizer.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/subword_tokenizer.h"
#include "experiments/support/text/word_tokenizer.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

std::uint32_t checksum_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

namespace {

constexpr Units all_units[] = {Units::words, Units::unigram, Units::bpe, Units::characters, Units::codes};

}  // namespace

const char* name_of(Units units) {
  constexpr const char* names[] = {"words", "unigram", "bpe", "characters", "codes"};
  return names[static_cast<std::size_t>(units)];
}

void add_options(Cli& cli, TextOptions& options) {
  std::vector<std::pair<std::string, Units>> choices;
  for (const Units units : all_units) choices.emplace_back(name_of(units), units);
  cli.choice("--units", options.units, choices,
             "tokens; sub-words and characters come from SentencePiece, codes are those of subword-nmt");
  cli.option(
         "--vocabulary-size", options.vocabulary_size,
         "the most tokens, or 0 for the usual number; with the 4 special ones; the usual number is 30000 words, 8000 "
         "sub-words (or as many as there are), all characters, or all units of codes")
      .at_least(0);
  cli.option("--min-count", options.min_count, "the least count of a word in the training texts; rarer words are <unk>")
      .at_least(1)
      .rare();
  cli.option("--lower-case", options.lower_case, "turn all text to lower case").rare();
  cli.option("--max-length", options.max_length, "the most tokens of a text, from its beginning; 0: all")
      .at_least(0)
      .rare();
  cli.option("--codes", options.codes, "the file of byte-pair codes, for --units codes").saved_as(lasting_path).rare();
}

std::unique_ptr<Tokenizer> train_tokenizer(const TextOptions& options, std::span<const std::string_view> texts) {
  require(options.units == Units::codes || options.codes.empty(), "--codes needs --units codes, not {}",
          name_of(options.units));
  if (options.units == Units::words) return WordTokenizer::train(options, texts);
  if (options.units == Units::codes) return BpeTokenizer::train(options, texts);
  return SubwordTokenizer::train(options, texts);
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& directory) {
  const fs::path path = directory / "tokenizer.json";
  std::error_code ignored;
  require(fs::exists(path, ignored), "{}: there is no tokenizer.json (is it the directory of a run?)",
          directory.string());
  const Json json = load_json(path);
  require(json.is_object() && json.contains("size") && json["size"].is_number_unsigned() &&
              json.contains("lower_case") && json["lower_case"].is_boolean(),
          "{}: expected an object with size (a number) and lower_case (true or false)", path.string());
  const auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  const std::string units = text("units"), checksum = text("crc32");
  const auto size = json["size"].get<std::int64_t>();
  const bool lower_case = json["lower_case"].get<bool>();
  if (units == "words") {
    std::unique_ptr<WordTokenizer> words = WordTokenizer::load(directory, size, lower_case);
    const fs::path list = directory / "vocabulary.txt";
    const std::string sum = fmt::format("{:08x}", checksum_of(contents_of_file(list)));
    require(checksum.empty() || sum == checksum, "{}: damaged: its CRC-32 is {}, tokenizer.json says {}", list.string(),
            sum, checksum);
    return words;
  }
  if (units == "codes") return BpeTokenizer::load(directory, size, lower_case);
  require(units == "unigram" || units == "bpe" || units == "characters",
          "{}: units is '{}', expected words, unigram, bpe, characters or codes", path.string(), units);
  const auto sum = hexadecimal<std::uint32_t>(checksum);
  require(sum.has_value(), "{}: crc32 is '{}', expected 8 hex digits", path.string(), checksum);
  return SubwordTokenizer::load(directory, size, *sum, lower_case);
}

void note_unknown_words(const std::string& flag, std::string_view text, const Tokenizer& tokenizer) {
  std::vector<std::string> unknown;
  for (std::string_view word : split_words(text)) {
    const std::vector<int> tokens = tokenizer.encode(word);
    const bool is_new = std::find(unknown.begin(), unknown.end(), printable(word)) == unknown.end();
    if (std::count(tokens.begin(), tokens.end(), unknown_id) > 0 && is_new) unknown.push_back(printable(word));
  }
  if (!unknown.empty())
    fmt::print(stderr, "{}: read as {}, because the run's vocabulary lacks them: {}\n", flag,
               tokenizer.token(unknown_id), first_few(unknown));
}

}  // namespace fovea
