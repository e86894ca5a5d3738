/// Words as tokens.
#pragma once
#include <functional>
#include <unordered_map>

#include "experiments/support/text/vocabulary.h"
#include "experiments/support/text/words.h"

namespace fovea {

/// The number of times that each word occurs.
class WordCounts {
 public:
  struct Entry {
    std::string word;
    std::int64_t count = 0;
  };
  using Map = std::unordered_map<std::string, std::int64_t, WordHash, std::equal_to<>>;

  void add(std::string_view word, std::int64_t times = 1);
  const Map& counts() const { return counts_; }
  /// The `most` most frequent words that occur min_count times, by falling count and then by bytes, without words that
  /// spell special tokens.
  std::vector<Entry> most_frequent(std::int64_t min_count, std::int64_t most) const;

 private:
  Map counts_;
};

class WordTokenizer : public Tokenizer {
 public:
  using Entry = WordCounts::Entry;

  /// `words` without the special tokens, in order of their numbers; all different.
  WordTokenizer(std::vector<Entry> words, bool lower_case);

  /// The words of the texts that occur min_count times, the most frequent ones if there are more than vocabulary_size.
  static std::unique_ptr<WordTokenizer> train(const TextOptions& options, std::span<const std::string_view> texts);

  /// Reads what `save` wrote. `size` and `lower_case` are what tokenizer.json says.
  static std::unique_ptr<WordTokenizer> load(const std::filesystem::path& directory, std::int64_t size,
                                             bool lower_case);

  std::vector<int> encode(std::string_view text) const override;
  std::string decode(std::span<const int> tokens) const override;
  std::string token(int id) const override;
  int size() const override { return static_cast<int>(entries_.size()); }
  std::string description() const override;
  void save(const std::filesystem::path& directory) const override;

 private:
  std::vector<Entry> entries_;  ///< by number, special tokens included
  std::unordered_map<std::string, int, WordHash, std::equal_to<>> ids_;
  bool lower_case_;
};

}  // namespace fovea
