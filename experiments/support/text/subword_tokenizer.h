/// Sub-words or characters as tokens: a SentencePiece model.
#pragma once
#include "experiments/support/text/vocabulary.h"
#include "experiments/support/text/word_memo.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace fovea {

/// SentencePiece's Unicode normalisation is off: decoded text equals the text that was encoded, with one space between
/// words. Text without spaces (Chinese, Japanese) comes back without spaces.
class SubwordTokenizer : public Tokenizer {
 public:
  /// `model` is a serialised SentencePiece model. Throws Error, starting with `name`, unless it passes
  /// check_sentencepiece_model.
  SubwordTokenizer(std::string model, bool lower_case, const std::string& name);
  ~SubwordTokenizer() override;

  static std::unique_ptr<SubwordTokenizer> train(const TextOptions& options, std::span<const std::string_view> texts);

  /// Reads what `save` wrote. `size`, `checksum` (CRC-32) and `lower_case` are what tokenizer.json says.
  static std::unique_ptr<SubwordTokenizer> load(const std::filesystem::path& directory, std::int64_t size,
                                                std::uint32_t checksum, bool lower_case);

  std::vector<int> encode(std::string_view text) const override;
  std::string decode(std::span<const int> tokens) const override;
  std::string token(int id) const override;
  int size() const override { return size_; }
  std::string description() const override;
  void save(const std::filesystem::path& directory) const override;

 private:
  std::string model_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  Units units_;
  bool lower_case_;
  int size_ = 0;

  std::vector<int> encode_word(std::string_view word) const;
  mutable WordMemo memo_;
};

}  // namespace fovea
