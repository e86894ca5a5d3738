/// Sub-words of subword-nmt as tokens.
#pragma once
#include <memory>

#include "experiments/support/text/bpe_codes.h"
#include "experiments/support/text/vocabulary.h"
#include "experiments/support/text/word_memo.h"
#include "experiments/support/text/word_tokenizer.h"

namespace fovea {

/// Words lie between spaces. Decoded text has no `@@`.
class BpeTokenizer : public Tokenizer {
 public:
  /// `vocabulary` has the units as subword-nmt writes them: `hou@@`, `se`.
  BpeTokenizer(BpeCodes codes, std::unique_ptr<WordTokenizer> vocabulary, bool lower_case);

  /// The codes of the file `options.codes`; all units of the texts, or the most frequent ones if there are more than
  /// vocabulary_size.
  static std::unique_ptr<BpeTokenizer> train(const TextOptions& options, std::span<const std::string_view> texts);

  /// Reads what `save` wrote. `size` and `lower_case` are what tokenizer.json says.
  static std::unique_ptr<BpeTokenizer> load(const std::filesystem::path& directory, std::int64_t size, bool lower_case);

  std::vector<int> encode(std::string_view text) const override;
  std::string decode(std::span<const int> tokens) const override;
  std::string token(int id) const override { return vocabulary_->token(id); }
  int size() const override { return vocabulary_->size(); }
  std::string description() const override;
  void save(const std::filesystem::path& directory) const override;

 private:
  BpeCodes codes_;
  std::unique_ptr<WordTokenizer> vocabulary_;
  bool lower_case_;
  mutable WordMemo memo_;
};

}  // namespace fovea
