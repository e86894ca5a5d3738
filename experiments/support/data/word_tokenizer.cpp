// Words as tokens.
#include <algorithm>
#include <array>

#include "experiments/support/data/vocabulary.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/in_quotes.h"

namespace fovea {

namespace {

constexpr std::array<std::string_view, special_tokens> specials = {"<pad>", "<unk>", "<s>", "</s>"};
constexpr std::int64_t default_words = 30'000;

struct Entry {
  std::string word;
  std::int64_t count = 0;
};

class WordTokenizer : public Tokenizer {
 public:
  /// `entries` by number, special tokens included; all different.
  WordTokenizer(std::vector<Entry> entries, bool lower_case)
      : Tokenizer(Units::words, lower_case), entries_(std::move(entries)) {
    // Only words are looked up, so a text that spells <pad> does not become padding.
    for (std::size_t i = special_tokens; i < entries_.size(); ++i) ids_.emplace(entries_[i].word, int(i));
  }

  std::vector<int> encode(std::string_view text) const override {
    const std::string own = cased(text);
    std::vector<int> tokens;
    for (const std::string_view word : split_words(own)) {
      const auto found = ids_.find(word);
      tokens.push_back(found == ids_.end() ? unknown_id : found->second);
    }
    return tokens;
  }

  std::string decode(std::span<const int> tokens) const override {
    std::string text;
    for (const int id : tokens) {
      const std::string word = token(id);
      if (id != pad_id && id != begin_id && id != end_id) append_word(text, word);
    }
    return text;
  }

  std::string token(int id) const override {
    require_token(id);
    return entries_[std::size_t(id)].word;
  }

  int size() const override { return int(entries_.size()); }

 private:
  std::string content() const override {
    std::string list;
    for (const Entry& entry : entries_) list += fmt::format("{}\t{}\n", entry.word, entry.count);
    return list;
  }

  std::vector<Entry> entries_;
  WordMap<int> ids_;
};

}  // namespace

std::unique_ptr<Tokenizer> train_words(const TextOptions& options, std::span<const std::string_view> texts) {
  const std::int64_t size = options.vocabulary_size == 0 ? default_words : options.vocabulary_size;
  require(size > special_tokens, "--vocabulary-size {}: expected more than the {} special tokens", size,
          special_tokens);
  WordMap<std::int64_t> counts;
  for (const std::string_view text : texts) {
    const std::string cased = options.lower_case ? lower_case(text) : std::string(text);
    for (const std::string_view word : split_words(cased)) ++counts[std::string(word)];
  }
  require(!counts.empty(), "vocabulary: {} training texts without a word", texts.size());
  std::vector<Entry> entries;
  for (const std::string_view special : specials) entries.push_back({std::string(special), 0});
  for (const auto& [word, count] : counts)
    if (count >= options.min_count && std::ranges::find(specials, word) == specials.end())
      entries.push_back({word, count});
  require(entries.size() > specials.size(),
          "--min-count {}: none of the {} different words of the training texts occurs so often", options.min_count,
          counts.size());
  std::ranges::sort(entries.begin() + special_tokens, entries.end(), [](const Entry& a, const Entry& b) {
    return a.count != b.count ? a.count > b.count : a.word < b.word;
  });
  entries.resize(std::min(entries.size(), std::size_t(size)));
  return std::make_unique<WordTokenizer>(std::move(entries), options.lower_case);
}

std::unique_ptr<Tokenizer> word_tokenizer(std::string_view content, bool lower_case, const std::string& name) {
  std::vector<Entry> entries;
  for (const std::string_view line : split_columns(content, '\n')) {
    if (line.empty()) continue;
    const auto columns = split_columns(line);
    if (columns.size() != 2) fail("{}: {}, expected a word and its count", name, in_quotes(line));
    entries.push_back({std::string(columns[0]), number<std::int64_t>(columns[1]).value_or(0)});
  }
  return std::make_unique<WordTokenizer>(std::move(entries), lower_case);
}

}  // namespace fovea
