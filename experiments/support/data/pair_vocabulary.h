/// The tokens of sentence pairs: one vocabulary for both sides, or one for each.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "experiments/support/data/text_pair.h"
#include "experiments/support/data/vocabulary.h"

namespace fovea {

class Cli;

struct PairTextOptions {
  TextOptions text;                         ///< for both sides, unless a member below differs
  bool joint = true;                        ///< one vocabulary, learnt on both sides
  std::int64_t target_vocabulary_size = 0;  ///< of a separate vocabulary; 0: the source's size
  std::int64_t block =
      0;  ///< language models: lines are joined to texts of about this many tokens; 0: each line is a text
};

/// Declares the flags of TextOptions, and --joint-vocabulary, --target-vocabulary-size.
void add_options(Cli& cli, PairTextOptions& options);

struct PairTokenizers {
  std::shared_ptr<const Tokenizer> source, target;  ///< the same object where the vocabulary is joint

  bool joint() const { return source == target; }
  std::string description() const;

  /// Writes a joint vocabulary into the directory, separate ones into its subdirectories source/ and target/.
  void save(const std::filesystem::path& directory) const;
};

/// Trains on the training pairs, at most 64 MB of each side, evenly chosen. Texts without a source (language models)
/// and texts with labels have one vocabulary. Throws Error as train_tokenizer does.
PairTokenizers train_tokenizers(const PairSource& pairs, const PairTextOptions& options);

/// Reads the tokenizers that `save` wrote.
PairTokenizers load_tokenizers(const std::filesystem::path& directory);

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

}  // namespace fovea
