#include "tensor/support/suggestion.h"

#include <algorithm>
#include <cctype>

#include <fmt/core.h>

namespace fovea {
namespace {

std::string folded(std::string_view name) {
  std::string result;
  for (unsigned char c : name) result += c == '_' ? '-' : char(std::tolower(c));
  return result;
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  // distance[i][j] is the edit distance between the first i letters of `a` and the first j letters of `b`
  std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      std::size_t replaced = distance[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      distance[i][j] = std::min({replaced, distance[i - 1][j] + 1, distance[i][j - 1] + 1});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

/// Whether `name` abbreviates `full`: both are split at '-', and each part of `name` is a prefix of the corresponding
/// part of `full`, as in "enc-attention" and "encoder-attention".
bool abbreviates(const std::string& name, const std::string& full) {
  if (name.size() < 2 || name.size() >= full.size()) return false;
  std::size_t at = 0;
  for (char c : name) {
    if (at < full.size() && full[at] == c) {
      ++at;
    } else if (c == '-') {
      at = full.find('-', at);
      if (at == std::string::npos) return false;
      ++at;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest_name = 200;  // time is quadratic, and no name is longer
  if (name.empty() || name.size() > longest_name) return "";
  std::string wanted = folded(name);
  const std::string* nearest = nullptr;
  std::size_t nearest_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest_name) continue;
    std::string offered = folded(candidate);
    std::size_t longer = std::max(wanted.size(), offered.size());
    std::size_t distance = abbreviates(wanted, offered) ? 1 : edit_distance(wanted, offered);
    bool near = distance <= std::max<std::size_t>(1, longer / 3) && distance < longer;
    if (near && (!nearest || distance < nearest_distance)) {
      nearest = &candidate;
      nearest_distance = distance;
    }
  }
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : "";
}

}  // namespace fovea
