/// Labelled texts in memory, and what all their readers share: tables of texts and labels, splitting a single file,
/// limiting the number of examples, further test sets, checking.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/data/records.h"
#include "experiments/support/data/text_pair.h"

namespace fovea {

class Cli;

/// Pairs of a text and its label.
class LabelledTexts : public PairSource {
 public:
  std::array<std::vector<TextPair>, 3> parts;
  struct TestSet {
    std::string name;
    std::vector<TextPair> texts;
  };
  std::vector<TestSet> more_tests;  ///< of --also-test
  std::vector<std::string> labels;  ///< in the order of their numbers
  std::string groups;               ///< what TextPair::group counts
  std::string source;               ///< one line: the files, and how they were read

  std::vector<TextPair>& operator[](Part part) { return parts[static_cast<std::size_t>(part)]; }
  const std::vector<TextPair>& operator[](Part part) const { return parts[static_cast<std::size_t>(part)]; }

  void visit(Part part, const PairVisitor& visitor, std::size_t test = 0) const override;
  /// The source, the sizes of the parts, and the labels.
  std::string description() const override;
  std::vector<std::string> tests() const override;
  std::vector<std::string> classes() const override { return labels; }
  std::string group() const override { return groups; }
};

/// The files of a data set whose parts are files of their own.
struct SplitFiles {
  std::filesystem::path train, dev, test;  ///< dev and test are empty where there is none

  /// "sst/trees/train.txt, dev.txt, test.txt"
  std::string description() const;
};

/// The files of a directory in a format that is read, chosen by their names (file_sets.h), or a file with those beside
/// it. `train` is empty where a directory has no training file.
SplitFiles split_files(const std::filesystem::path& path);

/// Reads tables, or JSON lines, of texts and labels. Of two columns without a header the label is the one with fewer
/// different and shorter values. Labels are any strings, of JSON also numbers, true and false; classes are those of the
/// training file, in the order of their numbers or bytes. A column `subset` says of the rows of the training file which
/// are the development part (val, dev), if that has no file of its own. Parts without a file stay empty.
LabelledTexts read_tables(const SplitFiles& files, const RecordFields& fields);

/// The format of a file that is a table, whatever its name says.
RecordFormat table_format(const std::filesystem::path& file);

/// The text with one space between words, and for every `<br />` of IMDB, however it is written.
std::string tidy_text(std::string_view text);

/// The roles of read_tables().
extern const Role text_role, label_role;

/// How much of a data set is used, and with which further test sets.
struct ExampleLimits {
  std::int64_t train_examples = 0;  ///< keep this many training examples, chosen by hash; 0: all
  std::int64_t test_examples = 0;   ///< the same for the test part
  std::string also_test;            ///< paths of further test sets, with commas
};

/// Declares --train-examples, --test-examples and --also-test.
void add_options(Cli& cli, ExampleLimits& limits);

/// Splits off the parts that have no file of their own, 10 % of the training texts each by hash. Adds to the source
/// which parts were split off.
void split_off_missing_parts(LabelledTexts& data);

/// The last step of every loader. Splits off missing parts. Applies the limits: examples with the smallest hash of text
/// stay, so that a smaller selection is part of every larger one. Adds the test sets of --also-test, which read(path)
/// reads: of a directory its test part, of a file all examples; they are called after their paths. Throws Error for an
/// empty part, for fewer than two labels in the training part, and for a label of a test set that the training set does
/// not have.
LabelledTexts completed(LabelledTexts data, const ExampleLimits& limits,
                        const std::function<LabelledTexts(const std::filesystem::path& path)>& read);

}  // namespace fovea
