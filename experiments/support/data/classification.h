/// Labelled texts in three parts, and what every reader of them shares: finding the files of a data set, splitting what
/// comes in one piece, limiting, checking.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

class Cli;

struct Example {
  std::string text;
  int label = 0;   ///< index into ClassificationData::classes
  int group = -1;  ///< value of ClassificationData::group, for accuracy by group; -1: not known or not reported
};

struct ClassificationData {
  std::vector<Example> train, dev, test;
  std::vector<std::string> classes;
  std::string group;   ///< what Example::group counts, e.g. "attractors"; empty: the examples have no groups
  std::string source;  ///< where they come from and how they were read, one line
  std::string corpus;  ///< as papers name the data set: "SST-2", "IMDB", "SVA"; empty: none of these
};

/// The line that a program prints and a run directory keeps: source, sizes, classes.
std::string describe(const ClassificationData& data);

/// "112 of 500 test texts and 3 of 50 development texts are also training texts"; empty where they are less than 1 % of
/// their part.
std::string overlap_warning(const ClassificationData& data);

/// Refuses a data set with an empty part or with fewer than two classes in its training part.
void check(const ClassificationData& data);

/// Where in [0, 1) its hash puts a text: the same text always falls to the same part, whatever else is in the file, so
/// that no text is in two parts.
double split_place(std::string_view text);

/// Moves out of `from` the examples whose place is in [begin, end).
std::vector<Example> split_off(std::vector<Example>& from, double begin, double end);

/// How much of a data set is used.
struct ExampleLimits {
  std::int64_t train_examples = 0;  ///< keep this many training examples, chosen by hash; 0: all
  std::int64_t test_examples = 0;   ///< the same for the test part
};

/// Declares --train-examples and --test-examples.
void add_limits(Cli& cli, ExampleLimits& limits);

/// What every loader does last: splits off missing parts, keeps what the limits say, and checks the result.
ClassificationData completed(ClassificationData data, const ExampleLimits& limits);

/// Splits off what a data set has no file for: 10 % of the training texts become the test part, another 10 % the
/// development part (split_off's [0, 0.1) and [0.1, 0.2)). Adds to `data.source` what it did.
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

/// The files that were found, for ClassificationData::source: "sst/trees/{train,dev,test}.txt".
std::string named(const SplitFiles& files);

/// What is in a directory, for errors: the first names, "empty", ...
std::string contents_of(const std::filesystem::path& directory);

/// --data as a configuration keeps it: a path from the root, so that a run goes on from any directory.
std::string lasting_data(const std::string& data);

/// The path, if it exists; otherwise throws Error naming --data and what it may be.
std::filesystem::path existing_data(const std::string& data);

}  // namespace fovea
