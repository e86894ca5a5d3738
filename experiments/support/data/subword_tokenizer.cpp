// Sub-words or characters as tokens: a SentencePiece model.
#include <algorithm>
#include <mutex>
#include <optional>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include "experiments/support/data/vocabulary.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr std::int64_t default_subwords = 8'000, most_units = 1'000'000;
constexpr std::size_t most_training_bytes = 8'000'000;  // 12 s of unigram training; all of IMDB would take 45 s

/// Cuts a word into pieces of whole characters and at most `most_bytes`: text without spaces is one long word.
std::vector<std::string_view> pieces_of(std::string_view word, std::size_t most_bytes) {
  std::vector<std::string_view> pieces;
  while (word.size() > most_bytes) {
    std::size_t end = 0;
    for (std::size_t at = 0; at <= most_bytes; next_character(word, at)) end = at;
    pieces.push_back(word.substr(0, end));
    word.remove_prefix(end);
  }
  pieces.push_back(word);
  return pieces;
}

/// The texts as lines of at most 4000 bytes: the trainer skips longer lines than 4192. Of many texts every k-th.
std::vector<std::string> training_lines(std::span<const std::string_view> texts, bool lower) {
  constexpr std::size_t most_bytes = 4000;
  std::size_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  const std::size_t stride = std::max<std::size_t>(1, (bytes + most_training_bytes - 1) / most_training_bytes);
  std::vector<std::string> lines;
  for (std::size_t k = 0; k < texts.size(); k += stride) {
    const std::string text = lower ? lower_case(texts[k]) : std::string(texts[k]);
    bool is_first = true;
    for (const std::string_view word : split_words(text))
      for (const std::string_view piece : pieces_of(word, most_bytes)) {
        if (is_first || lines.back().size() + 1 + piece.size() > most_bytes)
          lines.emplace_back(piece);
        else
          lines.back().append(" ").append(piece);
        is_first = false;
      }
  }
  return lines;
}

/// The lines as the trainer reads them.
class TrainingLines : public sentencepiece::SentenceIterator {
 public:
  explicit TrainingLines(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  bool done() const override { return at_ == lines_.size(); }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override { ++at_; }

 private:
  std::vector<std::string> lines_;
  std::size_t at_ = 0;
};

/// The number that follows `before` in the message.
std::optional<std::int64_t> number_after(const std::string& message, std::string_view before) {
  const std::size_t at = message.find(before);
  if (at == std::string::npos) return std::nullopt;
  return leading_number<std::int64_t>(std::string_view(message).substr(at + before.size()));
}

sentencepiece::util::Status train_model(const TextOptions& options, std::span<const std::string_view> texts,
                                        std::int64_t size, std::string& model) {
  TrainingLines lines(training_lines(texts, options.lower_case));
  model.clear();
  const bool characters = options.units == Units::characters;
  return sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", characters ? "char" : name_of(options.units)},
       {"vocab_size", std::to_string(size)},
       {"pad_id", std::to_string(pad_id)},
       {"unk_id", std::to_string(unknown_id)},
       {"bos_id", std::to_string(begin_id)},
       {"eos_id", std::to_string(end_id)},
       {"normalization_rule_name", "identity"},
       {"character_coverage", "1"},
       {"unk_surface", characters ? "\u2047" : " \u2047 "},  // an unknown character is no word of its own
       {"num_threads", "1"},                                 // sums in another order give other pieces
       {"minloglevel", "2"}},
      &lines, &model);
}

class SubwordTokenizer : public Tokenizer {
 public:
  SubwordTokenizer(std::string model, Units units, bool lower_case, const std::string& name)
      : Tokenizer(units, lower_case), model_(std::move(model)) {
    const auto status = processor_.LoadFromSerializedProto(model_);
    require(status.ok(), "{}: SentencePiece refuses the model: {}", name, status.ToString());
  }

  /// Tokens never span two words: each word is encoded once. The BPE of IMDB's training texts takes 6 s instead of 27.
  std::vector<int> encode(std::string_view text) const override {
    constexpr std::size_t most_words = 1'000'000, longest_word = 64;
    const std::string own = cased(text);
    const std::lock_guard lock(mutex_);
    if (known_.size() > most_words) known_.clear();
    std::vector<int> tokens;
    for (const std::string_view word : split_words(own)) {
      if (word.size() > longest_word) {  // a sentence without spaces, which hardly comes again
        std::ranges::copy(encode_word(word), std::back_inserter(tokens));
        continue;
      }
      auto known = known_.find(word);
      if (known == known_.end()) known = known_.emplace(word, encode_word(word)).first;
      tokens.insert(tokens.end(), known->second.begin(), known->second.end());
    }
    return tokens;
  }

  std::string decode(std::span<const int> tokens) const override {
    for (const int id : tokens) require_token(id);
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
    require(status.ok(), "sub-words: SentencePiece cannot decode: {}", status.ToString());
    return text;
  }

  std::string token(int id) const override {
    require_token(id);
    return processor_.IdToPiece(id);
  }

  int size() const override { return processor_.GetPieceSize(); }

 private:
  std::string content() const override { return model_; }

  std::vector<int> encode_word(std::string_view word) const {
    std::vector<int> tokens;
    const auto status = processor_.Encode(word, &tokens);
    require(status.ok(), "sub-words: SentencePiece cannot encode the text: {}", status.ToString());
    return tokens;
  }

  std::string model_;
  sentencepiece::SentencePieceProcessor processor_;
  mutable std::mutex mutex_;
  mutable WordMap<std::vector<int>> known_;
};

}  // namespace

std::unique_ptr<Tokenizer> subword_tokenizer(std::string model, Units units, bool lower_case, const std::string& name) {
  return std::make_unique<SubwordTokenizer>(std::move(model), units, lower_case, name);
}

std::unique_ptr<Tokenizer> train_subwords(const TextOptions& options, std::span<const std::string_view> texts) {
  const bool chosen = options.vocabulary_size != 0;
  const std::int64_t largest_default = options.units == Units::characters ? most_units : default_subwords;
  std::int64_t size = chosen ? options.vocabulary_size : largest_default;
  require(size > special_tokens && size <= most_units, "--vocabulary-size {}: expected {} to {}", size,
          special_tokens + 1, most_units);
  std::string model;
  auto status = train_model(options, texts, size, model);
  const auto largest = number_after(status.ToString(), "value <= ");
  const bool is_limit = !chosen || options.units == Units::characters;  // a larger number of characters is no mistake
  if (!status.ok() && largest && is_limit) status = train_model(options, texts, size = *largest, model);
  if (!status.ok()) {
    const std::string why = status.ToString();
    if (largest)
      fail("--vocabulary-size {}: the training texts yield at most {} sub-words: set {} or less", size, *largest,
           *largest);
    if (const auto smallest = number_after(why, fmt::format("required_chars. {} vs ", size)))
      fail("--vocabulary-size {}: the training texts have {} different characters and special tokens: set {} or more",
           size, *smallest, *smallest);
    require(why.find("sentences_.empty()") == std::string::npos, "vocabulary: {} training texts without a word",
            texts.size());
    fail("--vocabulary-size {}: SentencePiece cannot be trained: {}", size, why);
  }
  return subword_tokenizer(std::move(model), options.units, options.lower_case, "sub-words");
}

}  // namespace fovea
