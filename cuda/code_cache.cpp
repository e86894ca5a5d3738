#include "cuda/code_cache.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "tensor/support/atomic_file.h"

namespace fovea::cuda {

namespace {

namespace fs = std::filesystem;

constexpr const char* ending = ".cubin";

/// The hash FNV-1a of a text, from another start for each `number`.
std::uint64_t hash_of(std::string_view text, std::uint64_t number) {
  std::uint64_t hash = 0xcbf29ce484222325U + number;
  for (char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return hash;
}

fs::path file_of(const fs::path& folder, std::string_view key) {
  return folder / fmt::format("{:016x}{:016x}{}", hash_of(key, 0), hash_of(key, 1), ending);
}

/// A file begins with this line, which tells a damaged one, and one of another key with the same name.
std::string first_line(std::string_view key, std::string_view code) {
  return fmt::format("fovea {} {:016x} {} {:016x}\n", key.size(), hash_of(key, 2), code.size(), hash_of(code, 3));
}

void remove_oldest(const fs::path& folder, std::uintmax_t most_bytes) {
  // the path and bytes of each file, by the time at which it was written
  std::multimap<fs::file_time_type, std::pair<fs::path, std::uintmax_t>> files;
  std::uintmax_t total = 0;
  std::error_code failed;  // of a file that another process has just removed
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() != ending) continue;
    const std::uintmax_t bytes = entry.file_size(failed);
    if (failed) continue;
    files.emplace(entry.last_write_time(failed), std::pair(entry.path(), bytes));
    total += bytes;
  }
  for (const auto& [written, file] : files) {
    const auto& [path, bytes] = file;
    if (total <= most_bytes) break;
    fs::remove(path, failed);
    total -= bytes;
  }
}

}  // namespace

fs::path code_cache_folder() {
  if (const char* chosen = std::getenv("FOVEA_CACHE")) return chosen;
  if (const char* caches = std::getenv("XDG_CACHE_HOME"); caches && *caches) return fs::path(caches) / "fovea";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache" / "fovea";
  return {};
}

std::optional<std::string> kept_code(const fs::path& folder, std::string_view key) {
  if (folder.empty()) return std::nullopt;
  std::ifstream file(file_of(folder, key), std::ios::binary);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  std::string code{std::istreambuf_iterator<char>(file), {}};
  if (line + "\n" != first_line(key, code)) return std::nullopt;
  return code;
}

void keep_code(const fs::path& folder, std::string_view key, std::string_view code, std::uintmax_t most_bytes) {
  if (folder.empty()) return;
  std::error_code failed;
  fs::create_directories(folder, failed);
  try {
    write_file_atomically(file_of(folder, key), first_line(key, code) + std::string(code));
    remove_oldest(folder, most_bytes);
  } catch (const std::exception&) {  // no space, no permission, or another process writes the same file
  }
}

}  // namespace fovea::cuda
