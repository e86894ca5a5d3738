#include "experiments/support/text/bpe_codes.h"

#include <limits>

#include "experiments/support/text/lines.h"
#include "tensor/error.h"

namespace fovea {

namespace {

constexpr std::string_view end_of_word = "</w>", version_line = "#version:";
constexpr int no_merge = std::numeric_limits<int>::max();

/// Merges the pair wherever it occurs, from the left: of `x x x` the first two.
void merge(std::vector<std::string>& units, const std::string& left, const std::string& right) {
  std::vector<std::string> merged;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (i + 1 < units.size() && units[i] == left && units[i + 1] == right) {
      merged.push_back(left + right);
      ++i;
    } else {
      merged.push_back(std::move(units[i]));
    }
  }
  units = std::move(merged);
}

}  // namespace

BpeCodes::BpeCodes(const std::filesystem::path& path) {
  LineReader reader(path);
  for (std::string line; reader.next(line);) {
    lines_.push_back(line);
    if (reader.number() == 1 && line.starts_with(version_line)) {
      const std::vector<std::string_view> words = split_words(line);
      const std::string_view version = words.back();
      reader.require_here(version == "0.1" || version == "0.2", "version {}, expected 0.1 or 0.2", version);
      end_is_a_unit_ = version == "0.1";
      continue;
    }
    while (line.ends_with(' ')) line.pop_back();
    const std::vector<std::string_view> units = split_columns(line, ' ');
    reader.require_here(units.size() == 2 && !units[0].empty() && !units[1].empty(),
                        "{}, expected 2 with a space between, as subword-nmt writes them",
                        counted(split_words(line).size(), "unit"));
    ranks_.emplace(line, static_cast<int>(ranks_.size()));  // the first of two equal pairs counts
  }
  require(!ranks_.empty(), "{}: no merges, expected the codes that subword-nmt learnt", reader.name());
}

int BpeCodes::rank(const std::string& left, const std::string& right) const {
  const auto found = ranks_.find(left + ' ' + right);
  return found == ranks_.end() ? no_merge : found->second;
}

std::vector<std::string> BpeCodes::units(std::string_view word) const {
  const std::vector<std::string_view> characters = split_characters(word);
  std::vector<std::string> units(characters.begin(), characters.end());
  if (units.size() < 2) return units;
  if (end_is_a_unit_) {
    units.emplace_back(end_of_word);
  } else {
    units.back() += end_of_word;
  }
  while (units.size() > 1) {
    int best = no_merge;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < units.size(); ++i) {
      if (const int here = rank(units[i], units[i + 1]); here < best) best = here, place = i;
    }
    if (best == no_merge) break;
    merge(units, std::string(units[place]), std::string(units[place + 1]));
  }
  if (units.back() == end_of_word) {
    units.pop_back();
  } else if (units.back().ends_with(end_of_word)) {
    units.back().resize(units.back().size() - end_of_word.size());
  }
  return units;
}

std::string BpeCodes::apply(std::string_view line) const {
  std::string result;
  for (const std::string_view word : split_columns(line, ' ')) {
    if (word.empty()) continue;
    const std::vector<std::string> parts = units(word);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!result.empty()) result += ' ';
      result += parts[i];
      if (i + 1 < parts.size()) result += "@@";
    }
  }
  return result;
}

std::string join_units(std::string_view line) {
  constexpr std::string_view joint = "@@ ";
  std::string result;
  std::size_t begin = 0;
  for (std::size_t end; (end = line.find(joint, begin)) != std::string_view::npos; begin = end + joint.size()) {
    result += line.substr(begin, end - begin);
  }
  result += line.substr(begin);
  if (result.ends_with("@@")) result.resize(result.size() - 2);
  return result;
}

}  // namespace fovea
