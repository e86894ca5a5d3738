/// Finds the files that are the training, development and test set, by their names.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/support/data/text_pair.h"

namespace fovea {

/// A file name with the word for a part in it: `wiki.valid.tokens` is `wiki.`, dev and `.tokens`.
struct PartName {
  Part part = Part::train;
  std::string before, after;
};

/// Splits a name at its first word for a part: train; dev, val, valid or validation; test. Words lie between `.`, `_`
/// and `-`; digits may follow (`test2016`), letters may not (`training`). Returns nothing where there is no such word.
std::optional<PartName> part_named(const std::string& name);

/// The part that such a word by itself stands for, in any case; nothing for other words.
std::optional<Part> part_called(std::string_view word);

/// Files by the name of their set: the file's name without .gz, .txt and the language, if there is one.
using FileSets = std::map<std::string, std::filesystem::path>;

/// The files `SET.LANGUAGE` of the directory, or if there is none OpenNMT's `LANGUAGE-SET`; with an empty language all
/// files. Throws Error where two files are the same set.
FileSets sets_of(const std::filesystem::path& directory, const std::string& language);

/// The file, called set_name(file), and beside a file that is called a training file those of the same format.
FileSets sets_beside(const std::filesystem::path& file);

/// `wiki.train.tokens`, and `train` for train.txt.gz.
std::string set_name(const std::filesystem::path& file);

/// The names of sets.
struct SetNames {
  std::string train = {}, dev = {};
  std::vector<std::string> tests = {};
};

struct ChosenSets : SetNames {      ///< empty where there is none
  std::vector<std::string> unused;  ///< sets whose names have the word for a part but were not chosen
};

/// Chooses a set for each part: those in `asked` (`test_2016` finds `test_2016.lc.norm`), otherwise the one whose
/// name has the word for the part. Of several, first those count whose names differ from the training set's only in
/// that word, then those that begin like it. If the training set is in `asked`, sets that begin otherwise are never
/// chosen. Throws Error where a set in `asked` does not exist, and where several sets are left for a part; `has_flags`
/// says whether the user can choose by --train-set, --dev-set and --test-set.
ChosenSets choose_sets(const FileSets& sets, const SetNames& asked, const std::filesystem::path& directory,
                       bool has_flags);

/// The first names in a directory, for error messages: "sub/, train.xml and 12 more".
std::string contents_of(const std::filesystem::path& directory);

/// The part of a training text where test or development sets are missing, each of which is a tenth: by a hash, so that
/// a text falls to the same part whatever else is in the file, and no text is in two parts.
Part part_by_hash(std::string_view text, bool needs_dev, bool needs_test);

/// The value of --data for config.json: an absolute path, so that a run can be resumed from any directory.
std::string lasting_data(const std::string& data);

/// Returns `data` as a path. Throws Error where it does not exist, with the values that --data takes.
std::filesystem::path existing_data(const std::string& data);

}  // namespace fovea
