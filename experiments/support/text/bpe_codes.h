/// Byte-pair encoding as subword-nmt has it: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
/// Subword Units".
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "experiments/support/text/words.h"

namespace fovea {

/// The merges of a codes file, one a line (`e r</w>`), in the order in which they apply. With `#version: 0.2` at the
/// top `</w>` is part of a word's last character, without it (0.1) a unit of its own.
class BpeCodes {
 public:
  /// Throws Error with file and line for lines that are not two units, and for other versions.
  explicit BpeCodes(const std::filesystem::path& path);

  /// The units of a word: its characters, merged by the pairs in the file, in their order there.
  std::vector<std::string> units(std::string_view word) const;

  /// The output of subword-nmt's apply-bpe: units between spaces; all but the last of a word end in `@@`.
  std::string apply(std::string_view line) const;

  /// The number of merges.
  std::size_t merges() const { return ranks_.size(); }

  /// The file, line by line.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  int rank(const std::string& left, const std::string& right) const;

  std::vector<std::string> lines_;
  std::unordered_map<std::string, int, WordHash, std::equal_to<>> ranks_;  ///< "e r</w>": 17
  bool end_is_a_unit_ = true;                                              ///< version 0.1
};

/// Undoes `apply`: deletes `@@ `, and an `@@` at the end.
std::string join_units(std::string_view line);

}  // namespace fovea
