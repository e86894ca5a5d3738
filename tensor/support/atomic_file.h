/// Files that are written whole or not at all: a reader, or a run killed half-way, sees the old file or the new one.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace fovea {

/// A file under construction. What is written goes to `PATH.partial` beside it; commit() makes it durable (fsync) and
/// renames it over PATH. Without commit() the destructor removes the partial file and PATH stays as it was.
///
/// A partial file left by a killed process is reused by the next writer; two writers of one path exclude each other by
/// a lock on it. A symbolic link keeps pointing at its target, which is what gets replaced; the mode of a replaced file
/// is kept. Devices and pipes (/dev/stdout) are written to directly.
///
/// Every failure throws Error naming the path and the reason (no space, no permission, a directory, ...).
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Puts the new file in the place of the old one. Nothing can be written afterwards.
  void commit();

 private:
  void open_partial();
  void write_through(const char* data, std::size_t bytes);
  void flush();
  [[noreturn]] void fail_with(int error_number) const;

  std::filesystem::path path_;     ///< as the caller named it, for messages
  std::filesystem::path target_;   ///< links resolved
  std::filesystem::path partial_;  ///< empty: `target_` is written directly
  int descriptor_ = -1;
  std::string buffer_;
};

/// Replaces the contents of `path` in one step; see AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace fovea
