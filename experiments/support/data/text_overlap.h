/// Are test texts also training texts? Then a test measures what was learnt by heart.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/support/data/text_pairs.h"

namespace fovea {

/// Remembers a hash of each text, eight bytes, so that data larger than memory can be compared while they are read.
class TextOverlap {
 public:
  void add(Part part, std::string_view text);

  /// A pair counts where source and target are the same. Texts alone of less than 40 characters do not count: headings
  /// and names of speakers occur everywhere.
  void add(Part part, const TextPair& pair);

  /// "112 of 500 test texts and 3 of 50 development texts are also training texts", where `noun` is "texts"; a part in
  /// which less than 1 % are is left out. Empty where none is left.
  std::string warning(std::string_view noun) const;

 private:
  std::array<std::vector<std::uint64_t>, 3> hashes_;
  std::array<std::size_t, 3> texts_{};
};

}  // namespace fovea
