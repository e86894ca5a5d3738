/// Labelled texts in three parts, and the steps that all their readers share: finding the files of a data set,
/// splitting a single file, limiting the number of examples, checking.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

class Cli;

struct Example {
  std::string text;
  int label = 0;           ///< index into ClassificationData::classes
  int group = -1;          ///< value of ClassificationData::group, for accuracy by group; -1: not known or not reported
  int nouns_between = -1;  ///< of agreement: nouns between subject and verb; -1: not known
  bool is_hard = false;    ///< of agreement: belongs to the hard subset (agreement_data.h)
};

struct ClassificationData {
  /// A further test set of --also-test.
  struct TestSet {
    std::string name;
    std::vector<Example> examples;
  };
  std::vector<Example> train, dev, test;
  std::vector<TestSet> more_tests;
  std::vector<std::string> classes;
  std::string group;   ///< what Example::group counts, e.g. "attractors"; empty: the examples have no groups
  std::string source;  ///< one line: the files, and how they were read
};

/// The line that a program prints and a run directory keeps: source, sizes, classes.
std::string describe(const ClassificationData& data);

/// "112 of 500 test texts and 3 of 50 development texts are also training texts"; empty where they are less than 1 % of
/// their part.
std::string overlap_warning(const ClassificationData& data);

/// Refuses a data set with an empty part or with fewer than two classes in its training part.
void check(const ClassificationData& data);

/// The hash of a text as a number in [0, 1). Splits use it: a text falls to the same part whatever else is in the file,
/// and no text is in two parts.
double split_place(std::string_view text);

/// Moves out of `from` the examples whose place is in [begin, end).
std::vector<Example> split_off(std::vector<Example>& from, double begin, double end);

/// How much of a data set is used, and with which further test sets.
struct ExampleLimits {
  std::int64_t train_examples = 0;  ///< keep this many training examples, chosen by hash; 0: all
  std::int64_t test_examples = 0;   ///< the same for the test part
  std::string also_test;            ///< paths of further test sets, with commas
};

/// Declares --train-examples, --test-examples and --also-test.
void add_limits(Cli& cli, ExampleLimits& limits);

/// The last step of every loader: splits off missing parts, applies the limits and checks the result.
ClassificationData completed(ClassificationData data, const ExampleLimits& limits);

/// Adds the test sets of --also-test, which read(path) reads: of a directory its test part, of a file all examples.
/// They are called after their paths. Throws Error for a label that the training set does not have.
void add_test_sets(ClassificationData& data, const std::string& also_test,
                   const std::function<ClassificationData(const std::filesystem::path& path)>& read);

/// Splits off the parts that have no file of their own: 10 % of the training texts become the test part, another 10 %
/// the development part (split_off's [0, 0.1) and [0.1, 0.2)). Adds to `data.source` which parts were split off.
void split_off_missing_parts(ClassificationData& data);

/// Keeps `limit` of the examples in their order, those with the smallest hash of text, so that a smaller selection is
/// part of every larger one. 0 or more than there are: keeps all.
void keep_some(std::vector<Example>& examples, std::int64_t limit);

/// The files of a data set whose parts are files of their own.
struct SplitFiles {
  std::filesystem::path train, dev, test;  ///< dev and test are empty where there is none
};

/// Finds files called train, dev (or val, valid, validation) and test, with a common prefix (`sva_`) or none, ending in
/// .tsv, .csv, .jsonl or .txt, or that with .gz. `train` is empty where the directory has no such training file.
/// Throws Error where two files claim the same part.
SplitFiles find_split_files(const std::filesystem::path& directory);

/// The file and, if it is called a training file as above, the development and test files next to it that have the same
/// prefix and extension.
SplitFiles with_siblings(const std::filesystem::path& file);

/// The names of the files, for ClassificationData::source: "sst/trees/train.txt, dev.txt, test.txt".
std::string named(const SplitFiles& files);

/// The first names in a directory, for error messages: "sub/, train.xml and 12 more".
std::string contents_of(const std::filesystem::path& directory);

/// The value of --data for config.json: an absolute path, so that a run can be resumed from any directory.
std::string lasting_data(const std::string& data);

/// lasting_data() of each of several paths with commas between them.
std::string lasting_paths(const std::string& paths);

/// Returns `data` as a path. Throws Error where it does not exist, with the values that --data takes.
std::filesystem::path existing_data(const std::string& data);

}  // namespace fovea
