/// Machine code that programs have compiled before, in files: one for each text, its options and architecture.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace fovea::cuda {

/// The folder: FOVEA_CACHE, or else fovea in XDG_CACHE_HOME or ~/.cache. Empty: nothing is kept, because FOVEA_CACHE is
/// set and empty or there is no home.
std::filesystem::path code_cache_folder();

/// The code that was kept under `key`, a text that says all on which the code depends. Nothing if there is none, or if
/// the file is damaged.
std::optional<std::string> kept_code(const std::filesystem::path& folder, std::string_view key);

/// Keeps code in the folder, which is made if need be. Then removes the files that were written first, while all
/// together have more than `most_bytes`. Several processes may do so at once. That a file cannot be written is no
/// error: the code is compiled again.
void keep_code(const std::filesystem::path& folder, std::string_view key, std::string_view code,
               std::uintmax_t most_bytes = 256 << 20);

}  // namespace fovea::cuda
