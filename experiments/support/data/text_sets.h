/// Finds the files of a directory that are the training, development and test set, by their names.
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/data/text_pairs.h"

namespace fovea {

/// "train", "dev" or "test".
const char* name_of(Part part);

/// A file name with the word for a part in it: `wiki.valid.tokens` is `wiki.`, dev and `.tokens`.
struct PartName {
  Part part = Part::train;
  std::string before, after;
};

/// Splits a name at its first word for a part: train; dev, val, valid or validation; test. Words lie between `.`, `_`
/// and `-`; digits may follow (`test2016`), letters may not (`training`). Returns nothing where there is no such word.
std::optional<PartName> part_named(const std::string& name);

/// Files by the name of their set: the file's name without .gz, .txt and the language, if there is one.
using TextSets = std::map<std::string, std::filesystem::path>;

/// The files `SET.LANGUAGE` of the directory, or else those called `LANGUAGE-SET`, as OpenNMT calls them; with an empty
/// language all files. Throws Error where two files are the
/// same set.
TextSets sets_of(const std::filesystem::path& directory, const std::string& language);

/// The name of a file's set without a language: `wiki.train.tokens`, and `train` for train.txt.gz.
std::string set_name(const std::filesystem::path& file);

struct ChosenSets {
  std::array<std::string, 3> names;  ///< by part; empty: there is none
  std::vector<std::string> unused;   ///< sets whose names have the word for a part but were not chosen
};

/// Chooses a set for each part: the one in `asked` (`test_2016` finds `test_2016.lc.norm`), otherwise the one whose
/// name has the word for the part. Of several, first those count whose names differ from the training set's only in
/// that word, then those that begin like it. If the training set is in `asked`, sets that begin otherwise are never
/// chosen. Throws Error where a set in `asked` does not exist, and where several sets are left for a part.
ChosenSets choose_sets(const TextSets& sets, const std::array<std::string, 3>& asked,
                       const std::filesystem::path& directory);

}  // namespace fovea
