/// Whether a run that goes on has the data it began with.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "experiments/support/data/split_mix.h"
#include "experiments/support/program/json_file.h"

namespace fovea {

/// The hash of a part of the data, in any order of additions that is always the same.
class DataHash {
 public:
  void add(std::int64_t value) { hash_ = mix_bits(hash_ * 3 + static_cast<std::uint64_t>(value)); }
  void add(std::string_view text) {
    for (unsigned char byte : text) add(std::int64_t{byte});
  }
  /// {"examples": 20, "hash": "..."}
  Json part(std::size_t examples) const;

 private:
  std::uint64_t hash_ = 0;
};

/// Throws Error unless `now`, of the form {"train": part, "dev": part, "test": part, "classes": any}, is what the file
/// has; what differs is named.
void require_same_data(const std::filesystem::path& file, const Json& now);

}  // namespace fovea
