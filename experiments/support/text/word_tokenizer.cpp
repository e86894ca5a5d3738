#include "experiments/support/text/word_tokenizer.h"

#include <algorithm>
#include <array>

#include "experiments/support/program/json_file.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, special_tokens> specials = {"<pad>", "<unk>", "<s>", "</s>"};
constexpr std::int64_t default_words = 30'000;

bool is_special(std::string_view word) { return std::find(specials.begin(), specials.end(), word) != specials.end(); }

}  // namespace

void WordCounts::add(std::string_view word, std::int64_t times) {
  const auto found = counts_.find(word);
  if (found != counts_.end()) found->second += times;
  if (found == counts_.end()) counts_.emplace(word, times);
}

std::vector<WordCounts::Entry> WordCounts::most_frequent(std::int64_t min_count, std::int64_t most) const {
  std::vector<Entry> words;
  for (const auto& [word, count] : counts_) {
    if (count >= min_count && !is_special(word)) words.push_back({word, count});
  }
  std::sort(words.begin(), words.end(),
            [](const Entry& a, const Entry& b) { return a.count != b.count ? a.count > b.count : a.word < b.word; });
  if (static_cast<std::int64_t>(words.size()) > most) words.resize(static_cast<std::size_t>(most));
  return words;
}

WordTokenizer::WordTokenizer(std::vector<Entry> words, bool lower_case) : lower_case_(lower_case) {
  for (const std::string_view special : specials) entries_.push_back({std::string(special), 0});
  entries_.insert(entries_.end(), std::make_move_iterator(words.begin()), std::make_move_iterator(words.end()));
  // Only words are looked up, so a text that spells <pad> does not become padding.
  for (std::size_t i = special_tokens; i < entries_.size(); ++i) ids_.emplace(entries_[i].word, static_cast<int>(i));
}

std::unique_ptr<WordTokenizer> WordTokenizer::train(const TextOptions& options,
                                                    std::span<const std::string_view> texts) {
  const std::int64_t size = options.vocabulary_size == 0 ? default_words : options.vocabulary_size;
  require(size > special_tokens, "--vocabulary-size {}: expected more than the {} special tokens", size,
          special_tokens);
  WordCounts counts;
  for (const std::string_view text : texts) {
    const std::string cased = options.lower_case ? lower_case(text) : std::string(text);
    for (const std::string_view word : split_words(cased)) counts.add(word);
  }
  require(!counts.counts().empty(), "vocabulary: {} training texts without a word", texts.size());
  std::vector<Entry> words = counts.most_frequent(options.min_count, size - special_tokens);
  require(!words.empty(), "--min-count {}: none of the {} different words of the training texts occurs so often",
          options.min_count, counts.counts().size());
  return std::make_unique<WordTokenizer>(std::move(words), options.lower_case);
}

std::vector<int> WordTokenizer::encode(std::string_view text) const {
  const std::string cased = lower_case_ ? lower_case(text) : std::string(text);
  std::vector<int> tokens;
  for (const std::string_view word : split_words(cased)) {
    const auto found = ids_.find(word);
    tokens.push_back(found == ids_.end() ? unknown_id : found->second);
  }
  return tokens;
}

std::string WordTokenizer::decode(std::span<const int> tokens) const {
  std::string text;
  for (const int id : tokens) {
    const std::string word = token(id);
    if (id == pad_id || id == begin_id || id == end_id) continue;
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

std::string WordTokenizer::token(int id) const {
  require(id >= 0 && id < size(), "vocabulary: no token {}, there are {}", id, size());
  return entries_[static_cast<std::size_t>(id)].word;
}

std::string WordTokenizer::description() const {
  return fmt::format("{} words{}", size(), lower_case_ ? " in lower case" : "");
}

void WordTokenizer::save(const fs::path& directory) const {
  std::string list;
  for (const Entry& entry : entries_) list += fmt::format("{}\t{}\n", entry.word, entry.count);
  write_file_atomically(directory / "vocabulary.txt", list);
  save_json(directory / "tokenizer.json", {{"units", "words"},
                                           {"size", size()},
                                           {"lower_case", lower_case_},
                                           {"crc32", fmt::format("{:08x}", checksum_of(list))}});
}

std::unique_ptr<WordTokenizer> WordTokenizer::load(const fs::path& directory, std::int64_t size, bool lower_case) {
  LineReader reader(directory / "vocabulary.txt");
  std::vector<Entry> words;
  std::unordered_map<std::string, std::int64_t> seen;
  for (std::string line; reader.next(line);) {
    const auto columns = split_columns(line);
    reader.require_here(columns.size() == 2, "{}, expected 2 (word, count)", counted(columns.size(), "column"));
    const std::int64_t count = number<std::int64_t>(columns[1]).value_or(-1);
    reader.require_here(count >= 0, "count '{}', expected a number", columns[1]);
    Entry entry{.word = std::string(columns[0]), .count = count};
    reader.require_here(split_words(entry.word).size() == 1 && split_words(entry.word)[0] == entry.word,
                        "'{}' is not a word without white space", entry.word);
    const auto [first, is_new] = seen.emplace(entry.word, reader.number());
    reader.require_here(is_new, "'{}' is in line {} already", entry.word, first->second);
    if (reader.number() <= special_tokens) {
      const std::string_view expected = specials[static_cast<std::size_t>(reader.number() - 1)];
      reader.require_here(entry.word == expected, "'{}', expected {}", entry.word, expected);
    } else {
      words.push_back(std::move(entry));
    }
  }
  require(reader.number() == size, "{}: {} words, tokenizer.json says {} (truncated?)", reader.name(), reader.number(),
          size);
  return std::make_unique<WordTokenizer>(std::move(words), lower_case);
}

}  // namespace fovea
