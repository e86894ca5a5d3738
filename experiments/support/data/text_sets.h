/// Which files of a directory are the training, development and test set.
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

/// A name with the word for a part in it: `wiki.valid.tokens` is `wiki.`, dev, `.tokens`.
struct PartName {
  Part part = Part::train;
  std::string before, after;
};

/// Takes a name apart at its first word that begins with train; dev, val, valid or validation; test, and goes on with
/// no letter. Words lie between `.`, `_` and `-`. Nothing where there is no such word: `training.de`.
std::optional<PartName> part_named(const std::string& name);

/// Files by the name of their set: the file's name without .gz, .txt and, where files are of a language, that.
using TextSets = std::map<std::string, std::filesystem::path>;

/// The files `SET.LANGUAGE` of the directory; with an empty language all files. Throws Error where two files are the
/// same set.
TextSets sets_of(const std::filesystem::path& directory, const std::string& language);

/// The name of a file's set where files are of no language: `wiki.train.tokens`, and `train` for train.txt.gz.
std::string set_name(const std::filesystem::path& file);

struct ChosenSets {
  std::array<std::string, 3> names;  ///< by part; empty: there is none
  std::vector<std::string> unused;   ///< sets that are called after a part, but are none
};

/// Chooses a set for each part: the one that is asked for (`test_2016` finds `test_2016.lc.norm`), otherwise the one
/// that is called after the part. Of several, those count whose names are the training set's but for the part, then
/// those that begin as it does; beside a training set that was asked for no others count. Throws Error where a set
/// that is asked for does not exist, and where several are left.
ChosenSets choose_sets(const TextSets& sets, const std::array<std::string, 3>& asked,
                       const std::filesystem::path& directory);

}  // namespace fovea
