/// Compares the data of a run that continues with the data it began with.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "experiments/support/data/split_mix.h"
#include "experiments/support/program/json_file.h"

namespace fovea {

/// The hash of a part of the data. It depends on the order in which values are added.
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

/// The differences between the data.json `file` and the parts in `now`, separated by semicolons; empty if there are
/// none.
std::string data_changes(const std::filesystem::path& file, const Json& now);

/// Throws Error unless the data.json `file` equals `now`, which has the form {"train": part, "dev": part, "test": part,
/// "classes": any}. The message lists the differences.
void require_same_data(const std::filesystem::path& file, const Json& now);

}  // namespace fovea
