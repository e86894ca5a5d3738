/// Labelled texts in memory, and what all their readers share: the files of the parts, splitting a single file,
/// limiting the number of examples, checking.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/data/text_pair.h"

namespace fovea {

class Cli;

/// Pairs of a text and its label.
class LabelledTexts : public PairSource {
 public:
  LabelledTexts() = default;
  /// All pairs of another source.
  explicit LabelledTexts(const PairSource& pairs);

  std::array<std::vector<TextPair>, 3> parts;
  std::vector<std::string> labels;  ///< in the order of their numbers
  std::string groups;               ///< what TextPair::group counts
  std::string source;               ///< one line: the files, and how they were read

  std::vector<TextPair>& operator[](Part part) { return parts[std::size_t(part)]; }
  const std::vector<TextPair>& operator[](Part part) const { return parts[std::size_t(part)]; }

  void visit(Part part, const PairVisitor& visitor, std::size_t test = 0) const override;
  /// The source, the sizes of the parts, and the labels.
  std::string description() const override;
  std::vector<std::string> classes() const override { return labels; }
  std::string group() const override { return groups; }
};

/// The file, or directory, of each part; empty where there is none.
using SplitFiles = std::array<std::filesystem::path, 3>;

/// The tables (.tsv, .csv, .jsonl) and texts (.txt) of a directory, chosen by their names (file_sets.h), or a file with
/// those beside it. There is no training file if the directory has none.
SplitFiles split_files(const std::filesystem::path& path);

/// Adds the pairs of a file of this part to data.
using LabelledReader = std::function<void(LabelledTexts& data, Part part, const std::filesystem::path& file)>;

/// Reads all files, the training file first.
LabelledTexts read_files(const SplitFiles& files, const LabelledReader& read);

/// How much of a data set is used.
struct ExampleLimits {
  std::int64_t train_examples = 0;  ///< keep this many training examples, chosen by hash; 0: all
  std::int64_t test_examples = 0;   ///< the same for the test part
  bool hard_subset = false;         ///< test pairs that are not hard are left out; a flag of `agreement` alone

  /// Declares --train-examples and --test-examples.
  void add_to(Cli& cli);
};

/// The last step of every loader. Splits parts off that have no file of their own, 10 % of the training texts each by
/// hash. Applies the limits: examples with the smallest hash of text stay, so that a smaller selection is part of every
/// larger one. Throws Error for an empty part, and for fewer than two labels in the training part.
LabelledTexts completed(LabelledTexts data, const ExampleLimits& limits);

}  // namespace fovea
