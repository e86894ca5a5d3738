/// The tokens of sentence pairs: one vocabulary for both sides, or one for each.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "experiments/support/data/text_pairs.h"
#include "experiments/support/text/vocabulary.h"

namespace fovea {

class Cli;

struct PairTextOptions {
  TextOptions text;                         ///< of both sides, but for what follows
  bool joint = true;                        ///< one vocabulary, learnt on both sides
  std::int64_t target_vocabulary_size = 0;  ///< of separate ones; 0: as the source's
  std::string target_codes;                 ///< of separate ones; empty: the source's codes
};

/// Declares what TextOptions have, and --joint-vocabulary, --target-vocabulary-size, --target-codes.
void add_options(Cli& cli, PairTextOptions& options);

struct PairTokenizers {
  std::shared_ptr<const Tokenizer> source, target;  ///< the same one where the vocabulary is joint

  bool joint() const { return source == target; }
  std::string description() const;

  /// Into the directory where they are one, else into its subdirectories source/ and target/.
  void save(const std::filesystem::path& directory) const;
};

/// For the training pairs, of which at most 64 MB a side are looked at, evenly chosen. Texts without a source (language
/// models) have one vocabulary. Throws Error as train_tokenizer does.
PairTokenizers train_tokenizers(const PairSource& pairs, const PairTextOptions& options);

/// What `save` wrote.
PairTokenizers load_tokenizers(const std::filesystem::path& directory);

/// Every k-th of many texts, k a power of two, so that they stay below a number of bytes.
class TextSample {
 public:
  explicit TextSample(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  void add(const std::string& text);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::size_t most_bytes_, bytes_ = 0, seen_ = 0, stride_ = 1;
  std::vector<std::string> texts_;
};

}  // namespace fovea
