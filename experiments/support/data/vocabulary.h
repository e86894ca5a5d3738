/// Texts as sequences of token numbers: words with a frequency cut-off, or SentencePiece sub-words and characters,
/// which are trained in process.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

class Cli;
class PairSource;

/// The same four tokens start every vocabulary. Text never encodes to <pad>, <s> or </s>, not even text that spells
/// them.
inline constexpr int pad_id = 0, unknown_id = 1, begin_id = 2, end_id = 3, special_tokens = 4;

enum class Units {
  words,       ///< what lies between white space
  unigram,     ///< SentencePiece: Kudo 2018, "Subword Regularization"
  bpe,         ///< SentencePiece: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"
  characters,  ///< SentencePiece: each character is a token, and so is the space before each word
  // of models that others have trained:
  wordpiece,  ///< BERT's: the longest known beginnings of words; a text stands between <s> and </s>
  byte_bpe    ///< GPT-2's: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"
};

/// The name in flags and files: "words".
const char* name_of(Units units);

struct TextOptions {
  Units units = Units::words;
  std::int64_t vocabulary_size = 0;  ///< at most, with special tokens; 0: 30000 words, 8000 sub-words, all characters
  std::int64_t min_count = 2;        ///< words only: rarer words are <unk>, so that <unk> is trained
  bool lower_case = false;           ///< lower-case all text before it is split
  std::int64_t max_length = 0;       ///< keep only this many tokens of a text, the first; 0: all
  std::filesystem::path vocabulary;  ///< a run, or a model of Hugging Face, whose vocabulary is used; empty: none
  // of pairs of texts:
  bool joint = true;                        ///< one vocabulary, learnt on both sides
  std::int64_t target_vocabulary_size = 0;  ///< of a separate vocabulary; 0: the source's size
  std::int64_t block = 0;  ///< lines without a source are joined to texts of about this many tokens; 0: no line is

  /// Declares --units, --vocabulary-size, --min-count, --lower-case, --max-length, --vocabulary.
  void add_to(Cli& cli);
  /// Declares --joint-vocabulary and --target-vocabulary-size, too.
  void add_to_pairs(Cli& cli);
};

class Tokenizer {
 public:
  Tokenizer(Units units, bool lower_case) : units_(units), lower_case_(lower_case) {}
  virtual ~Tokenizer() = default;

  /// The tokens of the text, without <s> and </s> (unless they are pieces of words as BERT has them, which a model
  /// reads between those two); empty for white space, unless white space is part of the tokens (byte_bpe).
  virtual std::vector<int> encode(std::string_view text) const = 0;

  /// The text of the tokens; special tokens are left out, except <unk>. For sub-words and characters,
  /// decode(encode(text)) equals the text with one space between words; characters that the training texts do not
  /// have become U+2047. Throws Error for a number that is no token.
  virtual std::string decode(std::span<const int> tokens) const = 0;

  /// How the token is written. Throws Error for a number that is no token.
  virtual std::string token(int id) const = 0;

  /// Number of tokens, special ones included.
  virtual int size() const = 0;

  /// One line for a log: kind and size.
  std::string description() const;

  /// Writes tokenizer.json and vocabulary.txt (`word<TAB>count` a line, in order of their numbers), sentencepiece.model
  /// or tokens.json into the directory.
  void save(const std::filesystem::path& directory) const;

  Units units() const { return units_; }
  bool is_lower_case() const { return lower_case_; }

 protected:
  /// The content of the file that save() writes beside tokenizer.json: vocabulary.txt, sentencepiece.model or
  /// tokens.json.
  virtual std::string content() const = 0;
  /// The text, in lower case if that was asked for.
  std::string cased(std::string_view text) const;
  void require_token(int id) const;

 private:
  Units units_;
  bool lower_case_;
};

/// Prints a note on standard error that names the words of a user's text which the vocabulary does not have. `flag` is
/// where the text comes from: "--prompt".
void note_unknown_words(const std::string& flag, std::string_view text, const Tokenizer& tokenizer);

/// The first `max_length` tokens of the text; 0: all. If the tokens end in </s>, so do the first ones.
std::vector<int> tokens_of(const Tokenizer& tokenizer, std::string_view text, std::int64_t max_length);

/// A tokenizer for the texts, the same for the same texts and options: words by falling count, equal counts by bytes;
/// sub-words trained on one thread and on at most 8 MB of the texts, evenly chosen. Throws Error where there is no
/// text, or where the text has too many characters or too few sub-words for options.vocabulary_size, with the nearest
/// size that fits.
std::unique_ptr<Tokenizer> train_tokenizer(const TextOptions& options, std::span<const std::string_view> texts);

/// The tokenizer that `save` wrote into the directory, or that of a model of Hugging Face. Throws Error, with the file,
/// where that is missing, truncated, changed or not what `save` writes.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory);

// ---- Pairs of texts: one vocabulary for both sides, or one for each

struct PairTokenizers {
  std::shared_ptr<const Tokenizer> source, target;  ///< the same object where the vocabulary is joint

  bool joint() const { return source == target; }
  std::string description() const;

  /// Writes a joint vocabulary into the directory, separate ones into its subdirectories source/ and target/.
  void save(const std::filesystem::path& directory) const;
};

/// Reads the vocabulary that options.vocabulary names, or trains one on the training pairs, at most 64 MB of each side,
/// evenly chosen. Texts without a source (language models) and texts with labels have one vocabulary. Throws Error as
/// train_tokenizer does.
PairTokenizers train_tokenizers(const PairSource& pairs, const TextOptions& options);

/// Reads the tokenizers that `save` wrote.
PairTokenizers load_tokenizers(const std::filesystem::path& directory);
/// Throws Error unless the run or model of --init has this vocabulary: embeddings of other tokens are useless.
void require_same_tokens(const std::filesystem::path& run, const PairTokenizers& ours);

/// A sample of many texts: every k-th, where k is the smallest power of two that keeps them below a number of bytes.
class TextSample {
 public:
  explicit TextSample(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  void add(const std::string& text);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::size_t most_bytes_, bytes_ = 0, seen_ = 0, stride_ = 1;
  std::vector<std::string> texts_;
};

// ---- The kinds of tokenizers, between which these functions choose.

/// The words of the texts that occur min_count times, the most frequent ones if there are more than vocabulary_size.
std::unique_ptr<Tokenizer> train_words(const TextOptions& options, std::span<const std::string_view> texts);

/// Reads the content of a vocabulary.txt, which errors call `name`.
std::unique_ptr<Tokenizer> word_tokenizer(std::string_view content, bool lower_case, const std::string& name);

/// SentencePiece's Unicode normalisation is off: decoded text equals the text that was encoded, with one space between
/// words. Text without spaces (Chinese, Japanese) comes back without spaces.
std::unique_ptr<Tokenizer> train_subwords(const TextOptions& options, std::span<const std::string_view> texts);

/// Reads a serialised SentencePiece model, which errors call `name`.
std::unique_ptr<Tokenizer> subword_tokenizer(std::string model, Units units, bool lower_case, const std::string& name);

/// A tokenizer of BERT (Units::wordpiece) or GPT-2 (byte_bpe). `tokens` are all tokens by their numbers, the special
/// ones first; `merges` are pairs of byte_bpe, "a b", in the order of their ranks.
std::unique_ptr<Tokenizer> trained_tokenizer(Units units, bool lower_case, std::vector<std::string> tokens,
                                             std::vector<std::string> merges);

/// Reads the content of a tokens.json, which errors call `name`.
std::unique_ptr<Tokenizer> trained_tokenizer(Units units, bool lower_case, std::string_view content,
                                             const std::string& name);

}  // namespace fovea
