#include "experiments/support/data/text_overlap.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/core.h>

#include "experiments/support/data/split_mix.h"
#include "experiments/support/text/utf8.h"

namespace fovea {

void TextOverlap::add(Part part, std::string_view text) {
  const auto k = static_cast<std::size_t>(part);
  ++texts_[k];
  hashes_[k].push_back(stable_hash(text));
}

void TextOverlap::add(Part part, const TextPair& pair) {
  constexpr std::int64_t least_characters = 40;
  if (!pair.source.empty()) {
    add(part, pair.source + '\n' + pair.target);
  } else if (character_count(pair.target) >= least_characters) {
    add(part, pair.target);
  } else {
    ++texts_[static_cast<std::size_t>(part)];
  }
}

std::string TextOverlap::warning(std::string_view noun) const {
  const auto& train = hashes_[static_cast<std::size_t>(Part::train)];
  std::string parts;
  for (const Part part : {Part::test, Part::dev}) {
    const auto k = static_cast<std::size_t>(part);
    std::unordered_map<std::uint64_t, std::size_t> unseen;  // the part is smaller than the training set
    for (const std::uint64_t hash : hashes_[k]) ++unseen[hash];
    std::size_t shared = 0;
    for (const std::uint64_t hash : train) {
      const auto found = unseen.find(hash);
      if (found == unseen.end()) continue;
      shared += found->second;
      unseen.erase(found);
    }
    if (shared == 0 || shared * 100 < texts_[k]) continue;
    parts += fmt::format("{}{} of {} {} {}", parts.empty() ? "" : " and ", shared, texts_[k],
                         part == Part::test ? "test" : "development", noun);
  }
  return parts.empty() ? "" : fmt::format("{} are also training {}", parts, noun);
}

}  // namespace fovea
